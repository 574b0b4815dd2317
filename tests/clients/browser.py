"""The page at '/' in Chromium: talk, stop, retry, edit, settings, documents, Markdown that stays text, deleting, history, memory, two
widths, the keyboard, and what a screen reader gets; no error on the console. Screenshots are left in the working folder.

  browser.py URL KEY [--page FOLDER]      FOLDER: its files stand in for the server's (src/serve/page, while one edits them)
"""
import argparse
import json
import os
import pathlib
import re
import sys

from playwright.sync_api import expect, sync_playwright

reader = argparse.ArgumentParser()
reader.add_argument("url")
reader.add_argument("key")
reader.add_argument("--page", type=pathlib.Path)
asked = reader.parse_args()
WORDS = "The sky is blue. The grass is green. The sun is yellow. Here we go. "
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
HOSTILE = """# A heading

Some *emphasis*, **strength**, `code <b>` and [a link](https://example.org/a_b).
<img src=x onerror="window.broken = 1"> <script>window.broken = 1</script>
[a trap](javascript:window.broken=1) ![a picture](https://example.org/p.png) snake_case_name 2 * 3 * 4

1. first
2. second
   - inner
3. third

> a quote

| a | b |
|---|---|
| 1 | <i>2</i> |

```python
print("<b>no markup</b>")
**no emphasis**
```

```
not yet ended <script>window.broken = 1</script>"""


def say(text):
    print(f"browser: {text}", flush=True)


class Window:
    """A page of a browser that has seen nothing yet, and all that went wrong in it."""

    def __init__(self, browser, width, scheme):
        self.problems = []
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.context.add_init_script(f"sessionStorage.setItem('pith.key', {json.dumps(asked.key)})")
        self.page = self.open()

    def open(self):
        page = self.context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._look_at)
        if asked.page:
            page.route(re.compile(re.escape(asked.url) + r"/([a-z]+\.(js|css))?$"), self._from_folder)
        page.goto(asked.url)
        return page

    def _look_at(self, request):
        if not request.url.startswith((asked.url, "data:")):
            self.problems.append("fetched " + request.url)

    @staticmethod
    def _from_folder(route):
        name = route.request.url.rsplit("/", 1)[1] or "page.html"
        file = asked.page / name
        route.fulfill(body=file.read_bytes(), content_type=KINDS[file.suffix])

    def close(self):
        assert self.problems == [], self.problems
        self.context.close()


def button(page, name):
    return page.get_by_role("button", name=name, exact=True).first


def ended(page):
    expect(page.locator("#stop")).to_be_hidden(timeout=60_000)
    expect(page.locator("#send")).to_be_enabled()


def ask(page, text):
    page.get_by_role("textbox", name="Message", exact=True).fill(text)
    button(page, "Send").click()


def talk(page, text):
    ask(page, text)
    ended(page)


def settings(page, **values):
    button(page, "Settings").click()
    for name, value in values.items():
        page.locator("#" + name).fill(value)
    button(page, "Keep").click()


def stored(page):
    return page.evaluate("JSON.parse(localStorage.getItem('pith.conversations') || '[]')")


def no_sideways_scrolling(page):
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= seen, f"the page is {wide} pixels wide, the window {seen}"


def answered_with(page, text):
    """The next answers are this text, whatever the server would say."""
    pieces = [text[i : i + 7] for i in range(0, len(text), 7)]
    body = "".join(f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=body, content_type="text/event-stream"))


def check_talk(window):
    page = window.page
    page.get_by_text("pith-reference.gguf").wait_for()
    talk(page, "What is the colour of the sky?")
    assert page.locator("article.assistant .said").last.text_content()
    assert page.get_by_role("button", name="Retry").count() == 1
    button(page, "Retry").click()
    ended(page)
    expect(page.locator("article")).to_have_count(2)
    # What an edited message replaces is there until it is sent: again if the edit is cancelled, and after a reload.
    button(page, "Edit").click()
    expect(page.locator("#text")).to_have_value("What is the colour of the sky?")
    expect(page.locator("article")).to_have_count(0)
    button(page, "Cancel the edit").click()
    expect(page.locator("article")).to_have_count(2)
    expect(page.locator("#text")).to_have_value("")
    button(page, "Edit").click()
    page.reload()
    expect(page.locator("article")).to_have_count(2)
    button(page, "Edit").click()
    talk(page, "What is the colour of the grass?")
    expect(page.locator("article")).to_have_count(2)
    expect(page.locator("article.user .said")).to_have_text(re.compile("grass"))
    expect(page.locator("article.assistant .cost")).to_have_text(re.compile("tokens/s"))


def check_two_tabs(window):
    """Two tabs of one browser lose nothing of each other's."""
    page, second = window.page, window.open()
    button(second, "New conversation").click()
    talk(second, "And the sun?")
    expect(page.locator("#list li")).to_have_count(2)
    button(page, "Retry").click()
    ended(page)
    assert len(stored(page)) == 2
    second.close()


def check_settings(window):
    """What is set is sent, holds for the conversation, and is there after a reload; what was cancelled is not."""
    page, sent = window.page, []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.url.endswith("completions") else None)
    expect(page.locator("#temperature")).to_have_attribute("placeholder", re.compile(r"^[0-9.]+$"))
    expect(page.locator("#seed")).to_have_attribute("placeholder", "random")
    settings(page, policy="snapkv", budget="64", temperature="0.5", seed="7", max_tokens="40", system="Answer in few words.")
    button(page, "New conversation").click()
    button(page, "Settings").click()
    page.locator("#seed").fill("8")
    page.keyboard.press("Escape")
    expect(page.locator("#settings")).to_be_hidden()
    expect(button(page, "Settings")).to_be_focused()
    page.locator("#document-file").set_input_files([
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": (WORDS * 25).encode()},
        {"name": "empty.txt", "mimeType": "text/plain", "buffer": b" \n"},
        {"name": "more.txt", "mimeType": "text/plain", "buffer": b"  My cat is called Tom.\n"}])
    expect(page.locator("#document-line li")).to_have_count(2)
    expect(page.locator("#document-line")).to_contain_text("notes.txt, 1,700 characters")
    talk(page, "What is the colour of the sky?")
    body = sent[-1]
    wanted = {"kv_policy": "snapkv", "kv_budget": 64, "temperature": 0.5, "seed": 7, "max_tokens": 40}
    assert wanted.items() <= body.items(), body
    assert body["messages"][0] == {"role": "system", "content": "Answer in few words."}, body["messages"]
    assert "top_p" not in body and WORDS in body["messages"][1]["content"] and "Tom" in body["messages"][1]["content"]
    settings(page, budget="wrong")
    talk(page, "And of the grass?")
    expect(page.locator("#problem")).to_contain_text("budget")
    settings(page, budget="64")
    button(page, "Retry").click()
    ended(page)
    expect(page.locator("#problem")).to_have_text("")


def check_documents(window):
    """Chips that say how much is kept, the text shaded, the map with holes."""
    page = window.page
    expect(page.locator("article")).to_have_count(4)
    chips = page.locator("article.user .chip")
    expect(chips).to_have_count(2)
    expect(chips.first).to_have_text(re.compile(r"^notes\.txt (less than 1|\d+) % kept$"))
    shares = [one["kept"] for one in stored(page)[0]["documents"]]
    assert 0 < shares[0] < 0.9 and 0 <= shares[1] <= 1, shares
    assert page.locator("#document").text_content() == (WORDS * 25).strip()
    chips.nth(1).click()
    expect(page.locator("#document")).to_have_text("My cat is called Tom.")
    expect(page.locator("#document-title")).to_have_text(re.compile(r"more\.txt: .* kept"))
    expect(page.locator("#map-text")).to_have_text(re.compile(r"layers of \d+ heads: \d+ % of the entries"))
    n_all, n_empty = page.evaluate("""() => {
        const canvas = document.getElementById('map');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let empty = 0;
        for (let i = 3; i < data.length; i += 4) empty += data[i] === 0;
        return [data.length / 4, empty];
    }""")
    assert 0 < n_empty < n_all, (n_all, n_empty)
    expect(page.locator("#numbers")).to_contain_text("snapkv")
    expect(page.locator("#memory-text")).to_have_text(re.compile(r"^[0-9.]+ .*B of [0-9.]+ .iB"))
    held, most = page.evaluate("[document.getElementById('memory').value, document.getElementById('memory').max]")
    assert 0 < held < most, (held, most)
    # What auto has chosen may have a long name, which wraps instead of hiding the numbers below it.
    page.evaluate("document.querySelector('#numbers dd').textContent = 'vmax:pool=avg45:pool_over=before+entropy'")
    wide, seen = page.evaluate("(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.getElementById('cache-panel'))")
    assert wide <= seen, f"the cache's panel is {seen} pixels wide, what is in it {wide}"
    page.screenshot(path="wide-light.png")


def check_history(window):
    """All is there after a reload; a conversation is deleted where that is confirmed; the oldest go where there are too many."""
    page = window.page
    page.reload()
    expect(page.locator("article")).to_have_count(4)
    expect(page.locator("#list li")).to_have_count(3)
    expect(page.locator("article.user .chip").first).to_contain_text("% kept")
    button(page, "Settings").click()
    expect(page.locator("#seed")).to_have_value("7")
    page.screenshot(path="settings.png")
    button(page, "Cancel").click()
    drop = page.locator("#list li button").nth(5)
    drop.click()
    expect(page.locator("#confirm-no")).to_be_focused()
    expect(page.get_by_role("alertdialog")).to_contain_text("It cannot be brought back")
    page.screenshot(path="confirm.png")
    page.keyboard.press("Escape")
    expect(page.locator("#list li")).to_have_count(3)
    drop.click()
    button(page, "Delete").click()
    expect(page.locator("#list li")).to_have_count(2)
    assert len(stored(page)) == 2
    no_sideways_scrolling(page)


def check_bound(window):
    page = window.page
    made = [{"id": f"old{i}", "title": f"Old {i}", "policy": "full", "budget": "", "document": {"name": "d", "text": "x" * 50_000},
             "messages": [{"role": "user", "content": f"question {i}", "document": True}]} for i in range(90)]  # as an earlier page wrote
    page.evaluate("(made) => localStorage.setItem('pith.conversations', JSON.stringify(made))", made)
    page.reload()
    expect(page.locator("#list li")).to_have_count(90)
    expect(page.locator("article.user .chip")).to_have_text("d not read yet")
    button(page, "New conversation").click()
    settings(page, max_tokens="4", policy="", budget="", system="")
    talk(page, "Hello")
    expect(page.locator("#problem")).to_contain_text("made room")
    left = stored(page)
    n = page.evaluate("localStorage.getItem('pith.conversations').length")
    assert 3_900_000 < n <= 4_000_000, n
    assert left[0]["title"] == "Hello" and left[-1]["id"] == f"old{len(left) - 2}", [one["id"] for one in left]
    assert left[1]["settings"] == {"policy": "full"} and left[1]["messages"][0]["documents"] == [0], left[1]["settings"]
    page.evaluate("localStorage.setItem('pith.conversations', '{damaged')")
    page.reload()
    expect(page.locator("#list li")).to_have_count(1)


def check_markdown(window):
    """Markdown becomes elements, HTML stays text, and a link leads to the web alone."""
    page = window.page
    answered_with(page, HOSTILE)
    talk(page, "Show all. **I** write <b>plain</b> text.")
    said = page.locator("article.assistant .said").last
    for inside, text in {"h4": "A heading", "em": "emphasis", "strong": "strength", "ol > li": "first", "ol > li:nth-child(2) ul > li": "inner",
                         "blockquote": "a quote", "th": "a", "td:nth-child(2)": "<i>2</i>", "p code": "code <b>"}.items():
        assert said.locator(inside).first.text_content().strip() == text, (inside, said.locator(inside).first.text_content())
    assert said.locator("ol > li").count() == 3
    assert said.locator("pre code").all_text_contents() == ['print("<b>no markup</b>")\n**no emphasis**',
                                                          "not yet ended <script>window.broken = 1</script>"]
    assert said.locator("a").evaluate_all("all => all.map((one) => [one.href, one.rel])") == [
        ["https://example.org/a_b", "noopener noreferrer nofollow"], ["https://example.org/p.png", "noopener noreferrer nofollow"]]
    assert said.locator("img, script, i, b").count() == 0
    for text in ("[a trap](javascript:window.broken=1)", "<img src=x", "snake_case_name 2 * 3 * 4"):
        expect(said).to_contain_text(text)
    expect(page.locator("article.user .said").last).to_have_text("Show all. **I** write <b>plain</b> text.")
    assert page.evaluate("window.broken") is None
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the python").click()
    expect(page.get_by_role("button", name="Copy the python")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == 'print("<b>no markup</b>")\n**no emphasis**'
    page.screenshot(path="markdown.png")
    # What nobody writes may take its time, but not the browser's.
    for text in ("*" * 20_000, "[" * 20_000, "- " * 5_000, "> " * 5_000, "`" * 20_000 + "a", "|" * 20_000 + "\n" + "|-" * 9_000, "__a " * 5_000):
        took = page.evaluate("""async (text) => {
            const { markdown } = await import('/markdown.js');
            const began = performance.now();
            const made = markdown(text).textContent.length;
            return [performance.now() - began, made];
        }""", text)
        assert took[0] < 2_000, (text[:10], took)
    page.unroute("**/v1/chat/completions")


def check_accessibility(page):
    """Landmarks, names, and what happens: the tree that a screen reader gets."""
    tree = page.locator("body").aria_snapshot()
    for line in ('- link "Skip to the message"', '- heading "Pith pith-reference.gguf" [level=1]', '- navigation "Conversations":', "- log ",
                 '- textbox "Message"', '- button "Send"', '- button "Settings"', '- complementary "What the cache holds":',
                 '- heading "Cache" [level=2]', '- img "Layers and heads by position', '- meter "K/V memory"'):
        assert line in tree, f"{line} is not in\n{tree}"
    for role in ("navigation", "main", "complementary", "banner"):
        assert page.get_by_role(role).count() == 1, role
    nameless = page.evaluate("""[...document.querySelectorAll('button, input:not([hidden]), textarea, meter')]
        .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || (one.labels && one.labels.length > 0))).map((one) => one.outerHTML)
        .filter((text) => !text.includes('confirm-yes'))""")
    assert nameless == [], nameless
    # Tab goes through the page as it is read, and comes to everything.
    page.reload()
    page.get_by_text("pith-reference.gguf").wait_for()
    page.evaluate("document.activeElement.blur()")
    order = []
    for _ in range(30):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    places = [order.index(one) for one in ("Skip to the message", "show-settings", "new", "messages", "text", "document-add", "send")]
    assert places == sorted(places) and places[0] == 0, order


def check_narrow(window):
    page = window.page
    page.get_by_text("pith-reference.gguf").wait_for()
    no_sideways_scrolling(page)
    # Sent and stopped by the keyboard alone; the answer would be long.
    page.route("**/v1/chat/completions", lambda route: route.continue_(
        post_data=json.dumps({**route.request.post_data_json, "ignore_eos": True, "max_tokens": 1800})))
    page.locator("#text").focus()
    page.keyboard.type("Tell me a long story of the sky.")
    page.keyboard.press("Enter")
    page.locator("#stop").wait_for(state="visible")
    expect(page.locator("#status")).to_have_text("Pith is answering")
    page.keyboard.press("Escape")
    ended(page)
    expect(page.locator("#status")).to_have_text("Stopped")
    page.screenshot(path="narrow-dark.png")
    # An answer that is left while it comes ends, and leaves the next conversation free to ask: a new one, or one that was there.
    for leave in (lambda: button(page, "New conversation").click(), lambda: page.locator("#list li button").nth(2).click()):
        page.locator("#text").fill("Tell me another.")
        page.keyboard.press("Enter")
        page.locator("#stop").wait_for(state="visible")
        button(page, "Conversations").click()
        leave()
        ended(page)
        expect(page.locator("#list li button[aria-current]")).to_have_count(1)
    button(page, "Cache").click()
    expect(button(page, "Cache")).to_have_attribute("aria-expanded", "true")
    page.locator("#map").wait_for(state="visible")
    no_sideways_scrolling(page)
    page.screenshot(path="narrow-cache.png")
    page.keyboard.press("Escape")
    page.locator("#cache-panel").wait_for(state="hidden")
    button(page, "Settings").click()
    no_sideways_scrolling(page)
    page.screenshot(path="narrow-settings.png")


def main():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        wide = Window(browser, 1280, "light")
        for check in (check_talk, check_two_tabs, check_settings, check_documents, check_history):
            say(check.__name__)
            check(wide)
        say("check_accessibility")
        check_accessibility(wide.page)
        # The browser says what a wrong budget is answered with, which check_settings looks for.
        wide.problems = [one for one in wide.problems if "400 (Bad Request)" not in one]
        wide.close()
        for check, width, scheme in ((check_markdown, 1280, "dark"), (check_bound, 1280, "light"), (check_narrow, 360, "dark")):
            say(check.__name__)
            window = Window(browser, width, scheme)
            check(window)
            window.close()
        browser.close()
    print("ok")


if __name__ == "__main__":
    sys.exit(main())
