"""How crons read in English."""

import pytest

from wakeful.specs.cron import cron

SAID = """
* * * * *            | every minute
*/15 * * * *         | every 15 minutes
0 * * * *            | every hour
5 * * * *            | at minute 5 of every hour
5,35 * * * *         | at minutes 5 and 35 of every hour
0-10 * * * *         | every minute from minute 0 to 10 of every hour
*/7 * * * *          | every 7 minutes from minute 0 to 56 of every hour
5/15 * * * *         | every 15 minutes from minute 5 to 50 of every hour
50-10 * * * *        | every minute from minute 50 to 10 of every hour
*/60 * * * *         | every hour
0 */2 * * *          | every 2 hours
30 */2 * * *         | every 2 hours at minute 30
0 */5 * * *          | at 00:00, 05:00, 10:00, 15:00 and 20:00 every day
0 */24 * * *         | at 00:00 every day
0 9,17 * * *         | at 09:00 and 17:00 every day
0 3,4,5,6,7,8,9 * * *| at 03:00, 04:00, 05:00, 06:00, 07:00, 08:00 and 09:00 every day
*/15 9-17 * * 1-5    | every 15 minutes from 09:00 to 17:45, Monday to Friday
* 9-17 * * *         | every minute from 09:00 to 17:59 every day
*/5 9 * * *          | every 5 minutes from 09:00 to 09:55 every day
0 9-17 * * mon-fri   | every hour from 09:00 to 17:00, Monday to Friday
0 22-2 * * *         | every hour from 22:00 to 02:00 every day
0 8-20/2 * * *       | every 2 hours from 08:00 to 20:00 every day
10-50/10 9-17 * * *  | every 10 minutes from minute 10 to 50 of the hours 09 to 17 every day
*/2 */2 * * *        | every 2 minutes of every 2nd hour (00, 02, …) every day
* 1,3 * * *          | every minute of the hours 01 and 03 every day
0,7,33 1,2,5 * * *   | at minutes 0, 7 and 33 of the hours 01, 02 and 05 every day
* * * * * *          | every second
*/10 * * * * *       | every 10 seconds
0,30 * * * * *       | at seconds 0 and 30 of every minute
30 0 9 * * *         | at 09:00:30 every day
*/10 30 2 * * *      | every 10 seconds of the minute, at 02:30 every day
*/10 * 9-17 * * *    | every 10 seconds from 09:00 to 17:59 every day
59 59 23 31 12 ?     | at 23:59:59 on day 31 of December
0 9 * * 1            | at 09:00 on Monday
0 9 * * 7            | at 09:00 on Sunday
0 0 * * 6,0          | at 00:00 on Saturday and Sunday
0 17 * * fri-mon     | at 17:00 from Friday to Monday
0 22 * * 1-5         | at 22:00 from Monday to Friday
0 9 * * 1-5,sun#2    | at 09:00 from Monday to Friday and on the second Sunday of the month
30 2 * * 5L          | at 02:30 on the last Friday of the month
0 12 * 2 mon#5       | at 12:00 on the fifth Monday of February
0 9 * 6 1            | at 09:00 on Monday in June
0 9 * 6-8 1          | at 09:00 on Monday from June to August
0 0 1 * *            | at 00:00 on day 1 of the month
0 0 1,15 * *         | at 00:00 on days 1 and 15 of the month
0 0 1-7 * *          | at 00:00 from day 1 to day 7 of the month
0 0 */2 * *          | at 00:00 on every 2nd day (1, 3, 5, … 31) of the month
0 0 2-30/7 * *       | at 00:00 on every 7th day (2, 9, 16, … 30) of the month
0 0 1-31/11 * *      | at 00:00 on days 1, 12 and 23 of the month
0 0 29 2 *           | at 00:00 on day 29 of February
0 0 1 nov-feb *      | at 00:00 on day 1 of each month from November to February
0 0 1 */3 *          | at 00:00 on day 1 of January, April, July and October
0 0 L * *            | at 00:00 on the last day of the month
0 0 L-3 * *          | at 00:00 on the day that is 3 days before the last day of the month
0 0 L-1 2 *          | at 00:00 on the day that is 1 day before the last day of February
0 0 LW * *           | at 00:00 on the last weekday (Monday to Friday) of the month
0 9 15W * *          | at 09:00 on the weekday (Monday to Friday) nearest day 15 of the month
0 0 * 1 *            | at 00:00 every day in January
*/15 * * 1 *         | every 15 minutes in January
0 0 * jun-aug *      | at 00:00 every day from June to August
0 0 13 * 5           | at 00:00 on day 13 of the month and on every Friday
0 0 13 6 5           | at 00:00 on day 13 of June and on every Friday in June
0 0 13 * 1-5         | at 00:00 on day 13 of the month and from Monday to Friday
0 9 1,L * 1#1        | at 09:00 on day 1 and on the last day of the month and on the first Monday of the month
0 0 */2 * mon        | at 00:00 on every 2nd day (1, 3, 5, … 31) of the month if it is a Monday
0 0 29 2 */3         | at 00:00 on day 29 of February if it is a Wednesday, a Saturday or a Sunday
@hourly              | every hour
@daily               | at 00:00 every day
@weekly              | at 00:00 on Sunday
@monthly             | at 00:00 on day 1 of the month
@yearly              | at 00:00 on day 1 of January
"""


@pytest.mark.parametrize(
    ("expression", "said"), [tuple(part.strip() for part in line.split("|")) for line in SAID.strip().splitlines()]
)
def test_plain_english(expression: str, said: str) -> None:
    assert cron(expression).describe() == said


def test_the_zone_and_its_nights() -> None:
    assert cron("0 9 * * 1", "Europe/Paris").describe() == "at 09:00 on Monday, Europe/Paris time"
    assert cron("*/5 * * * *", "UTC").describe() == "every 5 minutes, UTC"
    assert cron("30 2 * * *", "Europe/Paris", "skip").describe() == (
        "at 02:30 every day, Europe/Paris time; left out when the clocks jump over it"
    )
    assert cron("30 2 * * *", None, "skip", "both").describe() == (
        "at 02:30 every day; left out when the clocks jump over it; both times when the clocks go back"
    )
    assert cron("30 2 * * *", fold="second").describe().endswith("; the second time when the clocks go back")
    # They mean nothing to a rule that follows elapsed time.
    assert cron("*/5 2 * * *", "UTC", "skip", "both").describe() == "every 5 minutes from 02:00 to 02:55 every day, UTC"
