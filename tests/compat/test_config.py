"""What is read from wrangler files."""

import json
from pathlib import Path

import pytest

from wakeful.compat.workers import config
from wakeful.compat.workers.namespaces import Env
from wakeful.compat.workers.worker import translate_cron
from wakeful.values.errors import BadOption

JSONC = """
{
  // the name, and a "quoted // comment"
  "name": "shop", "main": "src/entry.py", /* of
  several lines */ "compatibility_date": "2025-01-01",
  "vars": { "URL": "https://example.com/*not a comment*/", "N": 3, },
  "durable_objects": { "bindings": [ { "name": "CARTS", "class_name": "Cart" }, ], },
  "triggers": { "crons": ["*/5 * * * *"] },
}
"""
TOML = """
name = "shop"
main = "src/entry.py"
compatibility_date = "2026-02-24"

[vars]
COLOUR = "blue"

[[durable_objects.bindings]]
name = "CARTS"
class_name = "Cart"

[[durable_objects.bindings]]
name = "OTHER"
class_name = "Thing"
script_name = "another-worker"

[[kv_namespaces]]
binding = "CACHE"
id = "x"

[[vectorize]]
binding = "SEARCH"

[[migrations]]
tag = "v1"
new_classes = ["Basket", "Old"]

[[migrations]]
tag = "v2"
renamed_classes = [{ from = "Basket", to = "Trolley" }]

[[migrations]]
tag = "v3"
renamed_classes = [{ from = "Trolley", to = "Cart" }]
deleted_classes = ["Old"]

[env.staging.vars]
COLOUR = "red"
"""


def test_jsonc_has_comments_and_trailing_commas(tmp_path: Path) -> None:
    (tmp_path / "wrangler.jsonc").write_text(JSONC)
    found = config.read(tmp_path)
    assert found.vars == {"URL": "https://example.com/*not a comment*/", "N": 3}
    assert found.bindings == (("CARTS", "Cart"),)
    assert found.crons == ("*/5 * * * *",)
    assert found.main == (tmp_path / "src/entry.py").resolve()
    assert not found.deletes_alarm


def test_an_error_in_jsonc_is_where_the_file_has_it(tmp_path: Path) -> None:
    (tmp_path / "wrangler.jsonc").write_text('{\n // one\n "name": "x",\n "main" 1\n}')
    with pytest.raises(BadOption, match="line 4"):
        config.read(tmp_path)


def test_toml_with_migrations(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(TOML)
    found = config.read(tmp_path)
    assert found.stored_as == {"Cart": "Basket"}
    assert found.deleted == ("Old",)
    assert found.elsewhere == {"OTHER": "a class of another Worker, another-worker", "SEARCH": "Vectorize"}
    assert found.named == (("kv_namespaces", "CACHE", {"binding": "CACHE", "id": "x"}),)
    assert found.deletes_alarm


def test_every_kind_that_is_not_here_is_named(tmp_path: Path) -> None:
    kinds = ["ai", "browser", "hyperdrive", "images", "send_email", "vectorize", "version_metadata"]
    bound = {kind: {"binding": kind.upper()} for kind in kinds} | {"send_email": [{"name": "SEND_EMAIL"}]}
    (tmp_path / "wrangler.json").write_text(
        json.dumps({"main": "entry.py", **bound, "containers": [{"class_name": "A"}]})
    )
    found = config.read(tmp_path)
    assert sorted(found.elsewhere) == sorted(kind.upper() for kind in kinds)
    assert [words.partition(":")[0] for words in found.idle] == ["containers"]


def test_what_is_not_here_has_a_remedy_and_a_kind_that_nobody_knows_is_named(tmp_path: Path) -> None:
    assert set(config._ELSEWHERE.values()) == set(config.REMEDIES)
    new = {"main": "entry.py", "oracles": [{"binding": "ORACLE"}], "rules": [{"type": "Data"}], "vars": {"A": 1}}
    (tmp_path / "wrangler.json").write_text(json.dumps(new))
    assert config.read(tmp_path).elsewhere == {"ORACLE": "one of its oracles"}
    env = Env({}, {"SEARCH": "Vectorize", "ORACLE": "one of its oracles"})
    with pytest.raises(NotImplementedError, match=r"env.SEARCH is Vectorize, which is not here; keep vectors"):
        env.SEARCH.query()
    with pytest.raises(NotImplementedError, match=r"env.ORACLE is one of its oracles"):
        env.ORACLE.ask()


def test_json_comes_before_toml(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(TOML)
    (tmp_path / "wrangler.json").write_text(json.dumps({"name": "first", "main": "entry.py"}))
    assert config.read(tmp_path).name == "first"
    assert config.read(tmp_path / "wrangler.toml").name == "shop"


def test_an_environment_inherits_what_is_not_bound(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(TOML)
    found = config.read(tmp_path, environment="staging")
    assert (found.vars, found.bindings, found.compatibility_date) == ({"COLOUR": "red"}, (), "2026-02-24")
    with pytest.raises(BadOption, match="no environment 'production'; it has staging"):
        config.read(tmp_path, environment="production")


def test_secrets_come_from_dev_vars(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(TOML)
    (tmp_path / ".dev.vars").write_text('# secrets\nTOKEN="a=b"\nCOLOUR=green\nnothing\n')
    assert config.read(tmp_path).vars == {"COLOUR": "green", "TOKEN": "a=b"}


def test_secrets_are_written_as_in_other_programs(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(TOML)
    written = (
        'export A = plain # not this\n#B=no\nC="two\\nlines # kept" # not this\nD=\'it\\n\'\nE="1\n2"\nF=`"`\nG=\n'
    )
    (tmp_path / ".dev.vars").write_text(written)
    expected = {"A": "plain", "C": "two\nlines # kept", "D": "it\\n", "E": "1\n2", "F": '"', "G": ""}
    assert config.read(tmp_path).vars == {"COLOUR": "blue"} | expected


def test_an_environment_has_secrets_of_its_own_and_dot_env_is_second(tmp_path: Path) -> None:
    (tmp_path / "wrangler.toml").write_text(TOML)
    (tmp_path / ".env").write_text("A=env\nB=env")
    (tmp_path / ".env.staging").write_text("A=env.staging")
    assert config.read(tmp_path, environment="staging").vars == {"COLOUR": "red", "A": "env.staging", "B": "env"}
    (tmp_path / ".dev.vars").write_text("A=secret")
    assert config.read(tmp_path, environment="staging").vars == {"COLOUR": "red", "A": "secret"}
    (tmp_path / ".dev.vars.staging").write_text("B=staged")
    assert config.read(tmp_path, environment="staging").vars == {"COLOUR": "red", "B": "staged"}


@pytest.mark.parametrize(
    ("steps", "stored_as", "deleted"),
    [
        ([{"new_classes": ["A"]}, {"renamed_classes": [{"from": "A", "to": "B"}]}, {"new_classes": ["A"]}],
         {"B": "A", "A": "A.2"}, ()),
        ([{"new_classes": ["A"]}, {"deleted_classes": ["A"]}, {"new_sqlite_classes": ["A"]}], {"A": "A.2"}, ("A",)),
        ([{"new_classes": ["A"]}, {"renamed_classes": [{"from": "A", "to": "B"}]}, {"deleted_classes": ["B"]}],
         {}, ("A",)),
    ],
)  # fmt: skip
def test_a_new_class_does_not_find_the_objects_of_an_older_one(
    tmp_path: Path, steps: list[object], stored_as: dict[str, str], deleted: tuple[str, ...]
) -> None:
    (tmp_path / "wrangler.json").write_text(json.dumps({"main": "entry.py", "migrations": steps}))
    found = config.read(tmp_path)
    assert (found.stored_as, found.deleted) == (stored_as, deleted)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("name = 'x'", "no `main`"),
        ("main = ", "can't be read"),
        ("main = 'x'\n[[durable_objects.bindings]]\nname = 'A'", "no class_name"),
        ("main = 'x'\n[[kv_namespaces]]\nid = 'A'", "one of kv_namespaces has no `binding`"),
        ("main = 'x'\n[[migrations]]\ntransferred_classes = [{from='A', from_script='s', to='B'}]", "another Worker"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "wrangler.toml").write_text(text)
    with pytest.raises(BadOption, match=word) as raised:
        config.read(tmp_path)
    assert str(tmp_path) in raised.value.message


def test_a_folder_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"wrangler\.json, wrangler\.jsonc, wrangler\.toml"):
        config.read(tmp_path)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("0 17 * * 1", "0 17 * * sun"),
        ("10 7 * * 2-6", "10 7 * * mon-fri"),
        ("*/30 * * * *", "*/30 * * * *"),
        ("0 15 1 * *", "0 15 1 * *"),
        ("0 18 * * 6L", "0 18 * * friL"),
        ("0 9 * * 2,4", "0 9 * * mon,wed"),
        ("0 9 * * 2#1", "0 9 * * mon#1"),
        ("0 9 * * mon-fri", "0 9 * * mon-fri"),
        ("0 9 * * */2", "0 9 * * */2"),
    ],
)
def test_days_of_the_week_are_counted_from_sunday_there(theirs: str, ours: str) -> None:
    assert translate_cron(theirs) == ours
