"""Checks of HTML pages: validity, content security policy, links and forms."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import httpx

from tests.support.processes import plain_http

ACCEPT = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SVG = "{http://www.w3.org/2000/svg}"
POLICY = "default-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
OWN = re.compile(r"(/[^/]|/$|\?|#)")  # a URL on this service
# Values as programs write them, names of settings and fields, JSON, and parts of requests.
OF_PROGRAMS = re.compile(
    r"\b(?:None|null|nan|NaN|True|False|undefined)\b|\w*[a-z]_[a-z]\w*|[\[{][\"']|[?]\w+=|\b\w+=\""
    r"|\b[a-z]+=[a-z]|[(][a-z]+[.][a-z_]+[)]|\b(?:GET|POST|PUT|PATCH|DELETE) /|(?<!\S)--[a-z]"
)
READ_OUT = {"alt", "aria-label", "placeholder", "title"}  # attributes that people see or hear
IDS = re.compile(r"(?:mdl|ds|std|set|key|wh)_\w+|by_class")  # and what people type into a form
VOID = {"meta", "link", "input", "img", "source", "br", "rect", "path", "circle", "progress"}


def browsing(client: httpx.Client) -> plain_http.Client:
    """Return a client that requests pages of the same service and follows the redirects of forms."""
    return plain_http.Client(base_url=client.base_url, headers=ACCEPT, follow_redirects=True, timeout=60)


@dataclass
class Page(HTMLParser):
    """A parsed page; `breaches` lists every breach of the policy."""

    text: str = ""
    breaches: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    forms: list[dict[str, str | None]] = field(default_factory=list)
    images: list[dict[str, str | None]] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)
    controls: list[dict[str, str | None]] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    words: str = ""
    prose: str = ""  # of them those outside of code

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)
        self.feed(self.text)

    def handle_starttag(self, tag, attrs) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self.inside.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.breaches.append(f"<{tag} {name}>")
            if name in {"src", "href", "action", "srcset", "formaction"} and not OWN.match(value or ""):
                self.breaches.append(f"<{tag} {name}={value}>")
            if name in READ_OUT and value and not {"pre", "code"} & {*self.inside}:
                self.prose += f" {value} "
        if tag == "style" or (tag == "script" and not attributes.get("src")):
            self.breaches.append(f"inline <{tag}>")
        if attributes.get("id"):
            self.ids.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes.get("href") or "")
        elif tag == "form":
            self.forms.append(attributes)
        elif tag == "img":
            self.images.append(attributes)
        elif tag == "label":
            self.labels.add(attributes.get("for") or "")
        elif tag in {"input", "select", "textarea"}:
            if attributes.get("type") == "hidden":
                self.hidden[attributes.get("name") or ""] = attributes.get("value") or ""
            else:
                self.controls.append(attributes | {"in_label": ("label" in self.inside and "yes") or None})

    def handle_endtag(self, tag) -> None:
        if tag in VOID:
            return
        if not self.inside or self.inside.pop() != tag:
            self.breaches.append(f"</{tag}> closes nothing")

    def handle_data(self, data) -> None:
        if not self.inside or self.inside[-1] not in {"script", "style"}:
            self.words += data
            if not {"pre", "code"} & {*self.inside}:
                self.prose += data

    def words_of_programs(self) -> list[str]:
        """Return passages that people would read with values or names of programs in them."""
        prose = IDS.sub("", self.prose)
        return [prose[max(each.start() - 60, 0) : each.end() + 30] for each in OF_PROGRAMS.finditer(prose)]


def page_of(response: httpx.Response, status: int = 200) -> Page:
    """Return the page of a response after checking its policy, structure, landmarks and labels."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == POLICY
    page = Page(response.text)
    assert not page.breaches
    assert not page.inside, "an element isn't closed"
    assert page.tags.count("main") == page.tags.count("h1") == page.tags.count("title") == 1
    assert "header" in page.tags
    twice = {each for each in page.ids if page.ids.count(each) > 1}
    assert not twice, twice
    for control in page.controls:
        named = control.get("id") in page.labels or control["in_label"] or control.get("aria-label")
        assert named, f"{control} has no label"
    for image in page.images:
        assert image.get("alt"), f"{image} says nothing to who can't see it"
    assert all(form.get("method") in {"get", "post"} for form in page.forms)
    return page


def checked_svg(content: bytes) -> ET.Element:
    """Return a chart's document after checking that it runs and loads nothing."""
    root = ET.fromstring(content)
    assert root.tag == f"{SVG}svg"
    for element in root.iter():
        assert element.tag not in {f"{SVG}script", f"{SVG}foreignObject", f"{SVG}image"}
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            if name.endswith("href"):
                assert value.startswith("#")
    assert not re.search(rb"url\((?!#)", content)
    return root
