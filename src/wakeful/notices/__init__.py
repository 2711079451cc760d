"""Layer 4. What a person or another program is told of without looking: `from wakeful.notices import Notice`."""

from wakeful.notices.notice import Notice, NoticeError

__all__ = ["Notice", "NoticeError"]
