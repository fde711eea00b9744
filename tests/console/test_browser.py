"""The console in a real browser, as its reader sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalsm.database import Database
from dynalsm.server import ServerThread
from dynalsm.server.auth import AccessKey, Verifier
from tests.console.conftest import EVERYTHING
from tests.faces.conftest import MUSIC

Look = Callable[..., Any]
KEY = {"Artist": "The Acme Band", "SongTitle": "Still In Love"}
EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
PLACES = ("", "#/t/Music", "#/t/Music/changes", "#/t/Music/schema", "#/sql", "#/engine")


def texts(page: Any, selector: str) -> list[str]:
    return [str(one).strip() for one in page.locator(selector).all_inner_texts()]


def column(page: Any, number: int) -> list[str]:
    """The texts of a column of the items; the first one opens the item."""
    return texts(page, f".grid tbody tr td:nth-child({number + 1})")


def wait_for_text(page: Any, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for()


def find_song(page: Any) -> None:
    """Query for the item that has everything, and open it."""
    page.get_by_role("button", name="Query").click()
    page.fill("[data-key=Artist]", KEY["Artist"])
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Open The Acme Band / Still In Love").click()
    page.wait_for_selector("dialog .details")


def edit_text(page: Any, old: str, new: str) -> None:
    box = page.locator("dialog textarea")
    text = box.input_value()
    assert old in text
    box.fill(text.replace(old, new))


# --- tables ---------------------------------------------------------------------------------


def test_tables_with_keys_indexes_sizes_and_states(
    database: Database, music: Any, url: str, look: Look
) -> None:
    database.client.update_time_to_live(
        TableName="Music", TimeToLiveSpecification={"Enabled": True, "AttributeName": "Until"}
    )
    page = look(url).go()
    row = page.locator(".tables tbody tr").inner_text()
    for part in ("Music", "Artist", "SongTitle", "61", "KiB", "ByYear", "active", "stream", "Un"):
        assert part in row
    assert page.get_by_text("1 table with 61 items").is_visible()
    page.locator(".tables a").click()
    wait_for_text(page, "h1", "Music")
    page.get_by_role("link", name="Schema").click()
    wait_for_text(page, ".facts", "new and old images")
    assert "all attributes" in page.locator(".index-list").inner_text()


def test_vector_indexes_are_shown(database: Database, url: str, look: Look) -> None:
    vectors = {
        "IndexName": "ByMeaning",
        "VectorAttribute": {"AttributeName": "Meaning"},
        "Dimensions": 8,
        "DistanceFunction": "COSINE",
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    database.create_table(**MUSIC, VectorIndexes=[vectors])
    page = look(url).go()
    assert "ByMeaning" in page.locator(".tables tbody tr").inner_text()
    page.goto(f"{url}/_console/#/t/Music/schema")
    wait_for_text(page, ".index-list", "Meaning, 8 dimensions")
    assert "cosine" in page.locator(".index-list").inner_text()
    page.goto(f"{url}/_console/#/t/Music")
    sources = page.get_by_label("In", exact=True).locator("option").all_inner_texts()
    assert sources == ["The table", "Index ByYear"]  # a query cannot be asked of vectors


def test_an_empty_database_says_what_to_do(url: str, look: Look) -> None:
    page = look(url).go()
    assert "No tables yet" in page.locator(".empty").inner_text()
    assert url in page.locator(".sample").inner_text()
    page.goto(f"{url}/_console/#/t/Missing")
    wait_for_text(page, ".empty", "There is no such table")
    page.goto(f"{url}/_console/#/engine")
    wait_for_text(page, ".tile-value", "0")


def test_many_tables_can_be_filtered(database: Database, url: str, look: Look) -> None:
    for number in range(9):
        database.create_table(**{**MUSIC, "TableName": f"Table{number}"})
    page = look(url).go()
    page.keyboard.press("/")
    page.keyboard.type("LE7")
    assert texts(page, ".table-list .name") == ["Table7"]


# --- items ----------------------------------------------------------------------------------


def test_pages_forward_and_back(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    wait_for_text(page, ".result-bar", "page 1")
    first = column(page, 2)
    seen = list(first)
    for number in (2, 3):
        page.get_by_role("button", name="Next").click()
        wait_for_text(page, ".result-bar", f"page {number}")
        seen += column(page, 2)
    assert len(seen) == len(set(seen)) == 61
    assert page.get_by_role("button", name="Next").is_disabled()
    for number in (2, 1):
        page.get_by_role("button", name="Previous").click()
        wait_for_text(page, ".result-bar", f"page {number}")
    assert column(page, 2) == first


def test_a_query_with_a_sort_key_condition_and_direction(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    page.get_by_role("button", name="Query").click()
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".problem", "needs a value of the partition key “Artist”")
    page.fill("[data-key=Artist]", "Kraftwerk")
    page.get_by_label("SongTitle (string)").select_option("BETWEEN")
    page.get_by_label("SongTitle, value").fill("Song 10")
    page.get_by_label("SongTitle, upper value").fill("Song 12")
    page.get_by_label("Direction").select_option("down")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".result-bar", "3 items")
    assert column(page, 2) == ["Song 12", "Song 11", "Song 10"]

    page.get_by_label("In", exact=True).select_option("ByYear")
    page.fill("[data-key=Artist]", "Kraftwerk")
    page.get_by_label("Year (number)").select_option(">=")
    page.get_by_label("Year, value").fill("x")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".problem", "no number")
    page.get_by_label("Year, value").fill("2028")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".result-bar", "2 items")
    assert texts(page, ".grid thead th")[1:] == ["Artist", "Year", "SongTitle"]


def test_filters_go_on_until_something_is_found(
    database: Database, music: Any, url: str, look: Look
) -> None:
    page = look(url).go("#/t/Music")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Attribute").fill("Year")
    page.get_by_label("Condition").select_option("<")
    page.get_by_label("Type").select_option("N")
    page.get_by_label("Value").fill("1972")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".result-bar", "2 items, 61 read")
    page.get_by_role("button", name="Add a filter").click()
    last = page.locator(".filter").last
    last.get_by_label("Attribute").fill("Tags")
    last.get_by_label("Condition").select_option("attribute_exists")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".empty", "Nothing found")
    page.get_by_role("button", name="Remove this filter").first.click()
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".result-bar", "1 item, 61 read")


def test_every_type_is_shown_as_what_it_is(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    find_song(page)
    shown = page.locator("dialog .details").first
    names = shown.locator("> dt > span:first-child").all_inner_texts()
    types = shown.locator("> dt > .type").all_inner_texts()
    assert names[:2] == ["Artist", "SongTitle"]
    assert dict(zip(names, types, strict=True)) == {
        "Artist": "S", "SongTitle": "S", "Year": "N", "Live": "BOOL", "Gone": "NULL", "Cover": "B",
        "Thumb": "B", "Codes": "L", "Label": "M", "Tags": "SS", "Ranks": "NS", "Marks": "BS",
        "Lyrics": "S", "Empty": "S",
    }  # fmt: skip
    whole = shown.inner_text()
    for part in ("1999", "true", "null", "89 50 4e 47 ·PNG", "Acme Records", "remaster", "Ann"):
        assert part in whole
    # Long ones are cut, and shown when that is wanted.
    assert whole.count("la ") < 1000
    page.get_by_role("button", name="Show all 6,000 signs").click()
    assert shown.inner_text().count("la ") >= 1999
    assert "0000f0" in whole
    assert "0013f0" not in whole
    page.get_by_role("button", name="Show more of 5,120 bytes").click()
    page.get_by_role("button", name="Show more of 5,120 bytes").click()
    assert "0013f0" in shown.inner_text()
    with page.expect_download() as caught:
        page.get_by_role("button", name="Save as a file").click()
    assert Path(caught.value.path()).read_bytes() == EVERYTHING["Cover"]


# --- changing items -------------------------------------------------------------------------


def test_an_edit_is_stored_and_leaves_the_rest(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    find_song(page)
    page.get_by_role("button", name="Edit").click()
    edit_text(page, '"Year": 1999', '"Year": 12345678901234567890.5')
    # Somebody else changes another attribute meanwhile: both changes stay.
    music.update_item(
        Key=KEY, UpdateExpression="SET Plays = :n", ExpressionAttributeValues={":n": 7}
    )
    page.keyboard.press("Control+Enter")
    wait_for_text(page, ".toast", "The change is stored")
    stored = music.get_item(Key=KEY)["Item"]
    assert str(stored.pop("Year")) == "12345678901234567890.5"
    assert stored.pop("Plays") == 7
    assert stored == {name: value for name, value in EVERYTHING.items() if name != "Year"}


def test_a_lost_update_is_refused(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    find_song(page)
    page.get_by_role("button", name="Edit").click()
    edit_text(page, '"Year": 1999', '"Year": 2001')
    music.update_item(
        Key=KEY,
        UpdateExpression="SET #y = :n, Plays = :n",
        ExpressionAttributeNames={"#y": "Year"},
        ExpressionAttributeValues={":n": 2000},
    )
    page.get_by_role("button", name="Save").click()
    wait_for_text(page, "dialog .problem", "Somebody has changed “Year”, “Plays” meanwhile.")
    assert music.get_item(Key=KEY)["Item"]["Year"] == 2000
    page.get_by_role("button", name="Store mine all the same").click()
    wait_for_text(page, ".toast", "The change is stored")
    stored = music.get_item(Key=KEY)["Item"]
    assert (stored["Year"], stored["Plays"]) == (2001, 2000)

    page.get_by_role("button", name="Edit").click()
    edit_text(page, '"Year": 2001', '"Year": 2002')
    music.delete_item(Key=KEY)
    page.get_by_role("button", name="Save").click()
    wait_for_text(page, "dialog .problem", "Somebody has deleted the item meanwhile.")
    page.get_by_role("button", name="Create it again").click()
    wait_for_text(page, ".toast", "The item is stored")
    assert music.get_item(Key=KEY)["Item"]["Year"] == 2002


def test_mistakes_are_told_before_anything_is_sent(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    page.get_by_role("button", name="New item").click()
    box, save = page.locator("dialog textarea"), page.get_by_role("button", name="Create")
    for text, told in (
        ('{"Artist": "a"', "Line 1, column 15: A comma or } is expected"),
        ('{"Artist": "a"}', "“SongTitle” is missing"),
        ('{"Artist": 1, "SongTitle": "b"}', "“Artist” is a string"),
        ('{"Artist": "", "SongTitle": "b"}', "may not be empty"),
        ('{"Artist": "a", "SongTitle": "b", "x": {"NS": [1, 1]}}', "x: A set has each member once"),
        ('{"Artist": "a", "SongTitle": "b", "x": "%s"}' % ("y" * 410_000), "larger than 400 KiB"),
    ):
        box.fill(text)
        wait_for_text(page, ".editor-state.bad", told)
        assert save.is_disabled()
    box.fill('{"Artist": "a", "SongTitle": "b", "x": {"NS": [1, 2]}, "y": {"M": {"B": "q"}}}')
    page.get_by_role("button", name="DynamoDB JSON").click()
    assert '"x": {"NS": ["1", "2"]}' in box.input_value()
    save.click()
    wait_for_text(page, ".toast", "The item is stored")
    item = {"Artist": "a", "SongTitle": "b", "x": {1, 2}, "y": {"B": "q"}}
    assert music.get_item(Key={"Artist": "a", "SongTitle": "b"})["Item"] == item

    page.get_by_role("button", name="New item").click()  # in the form that was used last
    box.fill('{"Artist": {"S": "a"}, "SongTitle": {"S": "b"}}')
    save.click()
    wait_for_text(page, "dialog .problem", "There is an item with this key")
    assert music.get_item(Key={"Artist": "a", "SongTitle": "b"})["Item"] == item


def test_a_key_cannot_change_but_the_item_can_be_copied(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    find_song(page)
    page.get_by_role("button", name="Edit").click()
    edit_text(page, "Still In Love", "Out Of Love")
    wait_for_text(page, ".editor-state.bad", "The key of an item cannot change")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Duplicate").click()
    edit_text(page, "Still In Love", "Out Of Love")
    page.get_by_role("button", name="Create").click()
    wait_for_text(page, ".toast", "The item is stored")
    copy = music.get_item(Key={**KEY, "SongTitle": "Out Of Love"})["Item"]
    assert copy == {**EVERYTHING, "SongTitle": "Out Of Love"}


def test_deleting_asks_and_notices_other_writers(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    find_song(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="No", exact=True).click()
    music.update_item(
        Key=KEY, UpdateExpression="SET Live = :n", ExpressionAttributeValues={":n": False}
    )
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, delete it").click()
    wait_for_text(page, "dialog .problem", "it was not deleted")
    assert "Item" in music.get_item(Key=KEY)
    page.get_by_role("button", name="Show it as it is now").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, delete it").click()
    wait_for_text(page, ".toast", "The item is deleted")
    assert "Item" not in music.get_item(Key=KEY)
    wait_for_text(page, ".empty", "Nothing found")


# --- the stream, PartiQL --------------------------------------------------------------------


def test_changes_are_followed_as_they_come(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music/changes")
    wait_for_text(page, ".result-bar", "Nothing has changed yet")
    music.put_item(Item={**KEY, "Year": 2000})
    music.put_item(Item={"Artist": "New", "SongTitle": "One"})
    music.delete_item(Key={"Artist": "New", "SongTitle": "One"})
    wait_for_text(page, ".result-bar", "3 changes")
    kinds = texts(page, ".changes .event")
    assert sorted(kinds) == ["changed", "deleted", "new"]
    assert kinds.index("deleted") < kinds.index("new")  # the newest first
    changed = page.locator(".changes li", has_text="Still In Love")
    changed.locator("summary").click()
    row = changed.locator("tr", has_text="Year")
    row.wait_for()
    assert row.inner_text().split() == ["Year", "1999", "2000"]

    page.get_by_role("button", name="Pause").click()
    music.put_item(Item={"Artist": "New", "SongTitle": "Two"})
    page.get_by_role("button", name="Go on").click()
    wait_for_text(page, ".result-bar", "4 changes")
    page.get_by_role("button", name="From the beginning").click()
    wait_for_text(page, ".result-bar", "65 changes")


def test_a_stream_can_be_switched_on(database: Database, url: str, look: Look) -> None:
    plain = {name: value for name, value in MUSIC.items() if name != "StreamSpecification"}
    database.create_table(**plain)
    page = look(url).go("#/t/Music/changes")
    page.get_by_role("button", name="Switch it on").click()
    wait_for_text(page, ".result-bar", "Nothing has changed yet")
    database.Table("Music").put_item(Item={"Artist": "a", "SongTitle": "b"})
    wait_for_text(page, ".result-bar", "1 change")


def test_statements_with_pages_errors_and_history(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/sql")
    box = page.get_by_label("Statement")
    box.fill("SELECT SongTitle FROM Music WHERE Artist = 'Kraftwerk' AND \"Year\" < 1973;")
    page.keyboard.press("Control+Enter")
    wait_for_text(page, ".result-bar", "3 items")
    assert texts(page, ".grid tbody td") == ["Song 00", "Song 01", "Song 02"]
    box.fill("INSERT INTO Music VALUE {'Artist': 'Ø', 'SongTitle': 'x'}")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".empty", "Done")
    box.fill("SELEC 1")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".problem", "ValidationException")
    page.reload()
    page.wait_for_selector("button.past")
    assert texts(page, "button.past code")[0] == "SELEC 1"
    page.locator("button.past", has_text="INSERT").click()
    assert page.get_by_label("Statement").input_value().startswith("INSERT")
    page.get_by_role("button", name="Clear").click()
    assert page.locator("button.past").count() == 0


def test_more_of_a_long_result(music: Any, url: str, look: Look) -> None:
    with music.batch_writer() as batch:
        for number in range(60):
            batch.put_item(Item={"Artist": "More", "SongTitle": f"{number}"})
    page = look(url).go("#/sql")
    page.get_by_label("Statement").fill("SELECT * FROM Music")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".result-bar", "100 items, and more")
    page.get_by_role("button", name="More", exact=True).click()
    wait_for_text(page, ".result-bar", "121 items ·")


# --- the engine -----------------------------------------------------------------------------


def test_the_engine_is_shown_live(database: Database, music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/engine")
    commits = page.locator("[data-tile=commits]")
    before = commits.inner_text()
    for number in range(50):
        music.put_item(Item={"Artist": "Live", "SongTitle": str(number)})
    database.flush()
    database.compact()
    page.wait_for_function(
        "text => document.querySelector('[data-tile=commits]').innerText !== text", arg=before
    )
    wait_for_text(page, ".card td", "flush")
    wait_for_text(page, ".card td", "into L6")
    plots = page.locator("svg.plot")
    assert plots.count() == 6
    page.wait_for_function("document.querySelector('.plot path.line').getAttribute('d').length > 9")
    assert "commits" in plots.first.get_attribute("aria-label")
    plots.first.focus()
    page.keyboard.press("ArrowLeft")
    assert plots.first.locator(".cursor").count() == 1

    names = texts(page, ".trees tbody th")
    assert {"Music", "Music / ByYear", "Music / changes", "catalog"} == set(names)
    page.get_by_role("button", name="Music / ByYear").click()
    wait_for_text(page, ".strata h3", "Music / ByYear")
    columns = page.locator(".strata-plot g")
    handle = database.catalog.get("Music")
    assert handle is not None
    assert columns.count() == len(handle.indexes["ByYear"].tree.partitions())
    assert "of the hashes" in columns.first.locator("title").text_content()
    page.get_by_text("As a table").click()
    page.mouse.move(0, 0)  # off the plot, which stays as it is while somebody reads it
    assert page.locator(".strata tbody tr").count() == columns.count()
    page.wait_for_timeout(1300)  # a turn later it is still open
    assert page.locator(".strata tbody tr").first.is_visible()


def test_failures_and_a_lost_server_are_told(
    database: Database, music: Any, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = database.stats
    with ServerThread(database) as server:
        page = look(server.url).go("#/engine")
        monkeypatch.setattr(
            database, "stats", lambda: real() | {"failures": {"flush": "no space <b>left</b>"}}
        )
        wait_for_text(page, ".problem", "no space <b>left</b>")
        monkeypatch.undo()
        page.wait_for_selector(".problem", state="detached")
        port = int(server.url.rpartition(":")[2])
    wait_for_text(page, ".problem", "The server cannot be reached")
    assert page.locator(".light.bad").count() == 1
    with ServerThread(database, port=port):
        page.wait_for_selector(".problem", state="detached")


# --- safety ---------------------------------------------------------------------------------


def test_no_data_becomes_markup(music: Any, url: str, look: Look) -> None:
    item = {
        "Artist": EVIL, "SongTitle": EVIL, EVIL: {EVIL: [EVIL, {EVIL}]}, "__proto__": EVIL,
        "Set": {EVIL}, "Blob": EVIL.encode(),
    }  # fmt: skip
    page = look(url).go("#/t/Music/changes")
    wait_for_text(page, ".result-bar", "Nothing has changed yet")
    music.put_item(Item=item)
    wait_for_text(page, ".change-key", "<img")
    page.locator(".changes summary").click()
    page.goto(f"{url}/_console/#/t/Music")
    page.get_by_role("button", name="Query").click()
    page.fill("[data-key=Artist]", EVIL)
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".grid td", EVIL)
    page.get_by_role("button", name="Open <img").click()
    wait_for_text(page, "dialog .details", EVIL)
    page.get_by_role("button", name="Edit").click()
    assert "__proto__" in page.locator("dialog textarea").input_value()
    page.keyboard.press("Escape")
    page.goto(f"{url}/_console/#/sql")
    page.get_by_label("Statement").fill(f"SELECT * FROM Music WHERE Artist = '{EVIL}'")
    page.keyboard.press("Control+Enter")
    page.locator(".problem, .grid").first.wait_for()
    page.goto(f"{url}/_console/#/t/" + "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    wait_for_text(page, "h1", "<img src=x onerror=alert(1)>")
    assert page.locator("img, main script, #side script").count() == 0
    assert "hacked" not in page.title()


def test_the_policy_refuses_inline_scripts_and_markup(url: str, look: Look) -> None:
    watched = look(url)
    page = watched.go()
    refused = page.evaluate(
        """() => {
          const script = document.createElement("script");
          const outcome = [];
          const attempt = (run) => { try { run(); } catch (error) { outcome.push(error.name); } };
          attempt(() => { script.text = "document.title = 'hacked'"; });
          attempt(() => { document.body.innerHTML = "<b>x</b>"; });
          return outcome;
        }"""
    )
    assert refused == ["TypeError", "TypeError"]
    watched.complaints.clear()  # the policy's own


# --- keys -----------------------------------------------------------------------------------


@pytest.fixture
def guarded(database: Database, music: Any) -> Any:
    keys = [
        AccessKey("ALL", "s1"),
        AccessKey("READER", "s2", read_only=True),
        AccessKey("ONE", "s3", tables=("Music",)),
    ]
    database.create_table(**{**MUSIC, "TableName": "Secrets"})
    with ServerThread(database, verifier=Verifier(keys)) as server:
        yield server.url


def sign_in(page: Any, key: str, secret: str, keep: bool = False) -> None:
    page.get_by_label("Access key").fill(key)
    page.get_by_label("Secret key").fill(secret)
    if keep:
        page.get_by_label("Keep them until this tab closes").check()
    page.get_by_role("button", name="Go on").click()


def test_keys_are_asked_for_and_kept_only_when_wanted(guarded: str, music: Any, look: Look) -> None:
    page = look(guarded).go()
    assert "Music" not in page.content()
    sign_in(page, "ALL", "wrong")
    wait_for_text(page, ".problem", "InvalidSignatureException")
    sign_in(page, "ALL", "s1")
    wait_for_text(page, ".tables tbody", "Secrets")
    page.reload()
    wait_for_text(page, "h1", "Who are you?")
    sign_in(page, "ALL", "s1", keep=True)
    wait_for_text(page, ".tables tbody", "Secrets")
    page.goto(f"{guarded}/_console/#/t/Music")
    find_song(page)
    page.get_by_role("button", name="Edit").click()
    edit_text(page, '"Year": 1999', '"Year": 2001')
    page.get_by_role("button", name="Save").click()
    wait_for_text(page, ".toast", "The change is stored")
    assert music.get_item(Key=KEY)["Item"]["Year"] == 2001
    page.keyboard.press("Escape")
    page.reload()
    wait_for_text(page, ".who", "Key ALL")
    page.get_by_role("button", name="Forget it").click()
    wait_for_text(page, "h1", "Who are you?")
    page.reload()
    wait_for_text(page, "h1", "Who are you?")


def test_the_rights_of_a_key_hold(guarded: str, look: Look) -> None:
    page = look(guarded).go()
    sign_in(page, "READER", "s2")
    page.get_by_text("read only").wait_for()
    page.goto(f"{guarded}/_console/#/t/Music")
    wait_for_text(page, ".result-bar", "25 items")
    assert page.get_by_role("button", name="New item").count() == 0
    page.locator("button.open").first.click()
    page.wait_for_selector("dialog .details")
    assert page.get_by_role("button", name="Edit").count() == 0
    page.keyboard.press("Escape")
    page.goto(f"{guarded}/_console/#/sql")
    page.get_by_label("Statement").fill("DELETE FROM Music WHERE Artist='a' AND SongTitle='b'")
    page.get_by_role("button", name="Run").click()
    wait_for_text(page, ".problem", "AccessDeniedException")


def test_a_limited_key_works_with_its_tables(guarded: str, look: Look) -> None:
    page = look(guarded).go()
    sign_in(page, "ONE", "s3")
    wait_for_text(page, ".tables tbody", "Music")
    page.goto(f"{guarded}/_console/#/engine")
    wait_for_text(page, ".trees tbody", "Music / ByYear")
    page.goto(f"{guarded}/_console/#/t/Music")
    wait_for_text(page, ".result-bar", "25 items")
    assert "Secrets" not in page.content()


# --- looks ----------------------------------------------------------------------------------


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


COLORS_OF_TEXT = """() => {
  const own = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest(":disabled, .unseen, noscript, option")) continue;
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    found.set(`${ink}|${own(element)}`, `${element.className}: ${walker.currentNode.data}`);
  }
  return [...found].map(([colors, where]) => [...colors.split("|"), where]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(
    database: Database, music: Any, url: str, look: Look, scheme: str
) -> None:
    """Every text that is shown has the contrast that WCAG's level AA asks for."""
    database.flush()
    page = look(url, color_scheme=scheme).go()
    for place in PLACES:
        page.goto(f"{url}/_console/{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(250)
        if place == "#/t/Music":
            find_song(page)
        pairs = page.evaluate(COLORS_OF_TEXT)
        assert len(pairs) > 3
        for ink, ground, where in pairs:
            assert contrast(ink, ground) >= 4.5, (place, ink, ground, where)
    assert (luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1) == (
        scheme == "dark"
    )


def test_the_theme_can_be_chosen_and_stays(url: str, look: Look) -> None:
    page = look(url, color_scheme="light").go()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(ground)
    assert luminance(dark) < 0.1 < luminance(light)
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Auto").click()
    assert page.evaluate(ground) == light


def test_narrow_screens_show_everything(
    database: Database, music: Any, url: str, look: Look
) -> None:
    page = look(url, viewport={"width": 360, "height": 740}).go()
    for place in PLACES:
        page.goto(f"{url}/_console/{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
    menu = page.get_by_role("button", name="Menu")
    assert not page.get_by_role("link", name="PartiQL").is_visible()
    menu.click()
    assert menu.get_attribute("aria-expanded") == "true"
    page.get_by_role("link", name="PartiQL").click()
    wait_for_text(page, "h1", "PartiQL")
    assert menu.get_attribute("aria-expanded") == "false"


def test_the_keyboard_reaches_everything(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    page.wait_for_selector("button.open")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    seen = []
    for _ in range(14):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement.innerText || document.activeElement.tagName,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        seen.append(name)
        assert outline == "solid", name
    assert seen[:5] == ["Items", "Changes", "Schema", "Scan", "Query"]
    opener = page.locator("button.open").nth(3)
    opener.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .details")
    assert page.evaluate("document.activeElement.innerText") == "Edit"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert opener.evaluate("one => one === document.activeElement")


def test_screen_readers_get_names_landmarks_and_news(music: Any, url: str, look: Look) -> None:
    page = look(url).go("#/t/Music")
    wait_for_text(page, "#live", "25 items, page 1")
    page.get_by_role("button", name="Query").click()
    page.get_by_role("button", name="Add a filter").click()
    for role in ("banner", "main"):
        assert page.get_by_role(role).count() == 1
    assert page.get_by_role("navigation", name="Tables").count() == 1
    for place in (None, "#/sql", "#/engine"):
        if place:
            page.goto(f"{url}/_console/{place}")
            page.wait_for_timeout(300)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("input, select, textarea, button, [role=img]")]
              .filter((one) => one.checkVisibility()
                && !(one.labels?.length || one.getAttribute("aria-label") || one.innerText))
              .map((one) => one.outerHTML)"""
        )
        assert nameless == []
        assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"
