"""Workbooks of given cells, as people's spreadsheets write them."""

import base64
import io
import re
import struct
import zipfile
import zlib
from datetime import date, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import xlsxwriter

_X = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_FIRST_DAY = datetime(1899, 12, 30)  # noqa: DTZ001  that Excel counts from
_SPREADSHEET = (
    '<?xml version="1.0" encoding="UTF-8"?><office:document-content'
    ' xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    ' xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"'
    ' xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0"'
    ' office:version="1.2">{}<office:body><office:spreadsheet>{}</office:spreadsheet></office:body>'
    "</office:document-content>"
)


class Formula(str):
    """A formula, whose `stored` value is a number, a text or an error such as #DIV/0!."""

    __slots__ = ("stored",)

    @classmethod
    def of(cls, text: str, stored: Any) -> "Formula":
        formula = cls(text)
        formula.stored = stored
        return formula


def xlsx(
    sheets: dict[str, list[list[Any]]],
    merged: tuple[tuple[int, int, int, int], ...] = (),
    zeros: dict[int, str] | None = None,
) -> bytes:
    """Return a workbook.

    `merged` are areas of the first sheet, which have the value of their first cell; numbers of the columns
    `zeros` have these formats.
    """
    sink = io.BytesIO()
    book = xlsxwriter.Workbook(sink, {"in_memory": True})
    day = book.add_format({"num_format": "dd.mm.yyyy"})
    of_digits = {column: book.add_format({"num_format": code}) for column, code in (zeros or {}).items()}
    for number, (name, rows) in enumerate(sheets.items()):
        sheet = book.add_worksheet(name)
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                if isinstance(cell, Formula):
                    sheet.write_formula(at, column, str(cell), None, cell.stored)
                elif isinstance(cell, (date, datetime)):
                    sheet.write_datetime(at, column, cell, day)
                elif isinstance(cell, str):
                    sheet.write_string(at, column, cell)
                elif cell is not None:
                    sheet.write(at, column, cell, of_digits.get(column))
        for top, left, bottom, right in merged if number == 0 else ():
            sheet.merge_range(top, left, bottom, right, rows[top][left])
    book.close()
    return sink.getvalue()


def ods(sheets: dict[str, list[list[Any]]], formats: str = "") -> bytes:
    """Return an OpenDocument spreadsheet."""
    tables = "".join(
        f'<table:table table:name="{escape(name)}">'
        + "".join(f"<table:table-row>{''.join(map(_cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"'
        ' manifest:version="1.2"/>'
    )
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet", zipfile.ZIP_STORED)
        archive.writestr("content.xml", _SPREADSHEET.format(formats, tables))
        archive.writestr("META-INF/manifest.xml", manifest)
    return sink.getvalue()


def _cell(cell: Any) -> str:
    if cell is None:
        return "<table:table-cell/>"
    if isinstance(cell, Formula):
        error = ' calcext:value-type="error"' if str(cell.stored).startswith("#") else ""
        kind = 'string" office:string-value="' if error else f'float" office:value="{cell.stored}'
        stored = f'office:value-type="{kind}"{error}'
        return f'<table:table-cell table:formula="of:{escape(cell)}" {stored}><text:p/></table:table-cell>'
    if isinstance(cell, bool):
        value = f'office:value-type="boolean" office:boolean-value="{str(cell).lower()}"'
    elif isinstance(cell, (int, float)):
        value = f'office:value-type="float" office:value="{cell}"'
    elif isinstance(cell, date):
        value = f'office:value-type="date" office:date-value="{cell.isoformat()}"'
    else:
        value = 'office:value-type="string"'
    return f"<table:table-cell {value}><text:p>{escape(str(cell))}</text:p></table:table-cell>"


def letters_of(workbook: bytes, decimal: str = ".") -> list[list[str]]:
    """Return what a spreadsheet shows of the first sheet's cells, in a locale with that decimal sign.

    Fails for a formula, or an unknown format.
    """
    with zipfile.ZipFile(io.BytesIO(workbook)) as archive:
        sheet, styles = (
            ET.fromstring(archive.read(f"xl/{name}.xml")) for name in ("worksheets/sheet1", "styles")
        )
    assert sheet.find(f".//{_X}f") is None
    named = {each.get("numFmtId"): each.get("formatCode") for each in styles.iter(f"{_X}numFmt")}
    named |= {"0": "General", "1": "0", "2": "0.00", "3": "#,##0", "4": "#,##0.00", "14": "m/d/yy"}
    forms = [named[each.get("numFmtId")] for each in styles.find(f"{_X}cellXfs")]
    rows = []
    for row in sheet.iter(f"{_X}row"):
        cells = {}
        for cell in row:
            column = sum(
                (ord(sign) - 64) * 26**at for at, sign in enumerate(cell.get("r").rstrip("0123456789")[::-1])
            )
            cells[column] = _shown(cell, forms[int(cell.get("s", "0"))], decimal)
        rows.append([cells.get(at + 1, "") for at in range(max(cells))])
    return rows


def _shown(cell: ET.Element, form: str, decimal: str) -> str:
    kind, value = cell.get("t", "n"), "".join(cell.itertext())
    if kind == "inlineStr":
        return re.sub("_x([0-9A-F]{4})_", lambda code: chr(int(code[1], 16)), value)
    if kind == "b":
        return ("FALSE", "TRUE")[int(value)]
    assert kind == "n", kind
    if "y" in form:
        time = _FIRST_DAY + timedelta(seconds=round(float(value) * 86_400))
        parts = {"yyyy": "%Y", "mm": "%m", "dd": "%d", "hh": "%H", "ss": "%S", "m": "%-m", "d": "%-d"}
        form = form.replace("hh:mm", "hh:%M").replace("\\", "").replace('"', "")
        return time.strftime(re.sub("yyyy|mm|dd|hh|ss|(?<!%)[md]", lambda part: parts[part[0]], form))
    if form == "General":
        return f"{float(value):.11g}".replace(".", decimal)
    before, core, after = re.fullmatch(
        '(?:"([^"]*)")?(0(?:[.]0+)?|#,##0(?:[.]0+)?)(?:"([^"]*)")?', form
    ).groups()
    places = len(core.partition(".")[2])
    digits = f"{abs(float(value)):{',' * ('#' in core)}.{places}f}"
    digits = digits.translate({44: 46, 46: 44}) if decimal == "," else digits
    return f"{'-' * (float(value) < 0)}{before or ''}{digits}{after or ''}"


# The columns zip (numbers from 1067 on, of the format 00000) and y of five rows, compressed.
_XLS = (
    r"c-rk)O-NKx6#nj;_vVjrd{d*Kfeb=c=AvlRMqh>HDzP?21vTa@#2968qnj+7We~I~+6cO6GggcKi`oSRMlFIMn5ku}z@UZB>)iA1"
    r"({Y->ffAJaJ?^>Zo%@}8&U^Rg{k&gD6ld<YmQaNr1W<M(2v*nxm56_0gW6qJs(u}&;%aOvM8Y(XK?~0s-i72C%JDA2z&-OdN#HA$"
    r"a~MPaXf~7DKpf#5(n99YO;X?vS>kBnthTYd$Z|W&d1gLmd5A67S#}e*D9&KP>F+$KX7OpGo!jD&{XSx!&urO`CcKfe`0@?maV;Fq"
    r"4W}<{vW7M@hFQ>n_GPk}oIH<WjvBE~qKG7o^DKV4DPYlG(63V3zOi-zvj19Z5B<d+rtzz`-!x2M3ho77A9=*E7?3R{deh_SCACUq"
    r"A@k($7|oH1sNBPO&D(3%d;_nA7|9_tvYud1n<6jW{qf=W;DB?UEmOSDdryO%G6T4{B0b1C4!=JyZYRsVEU$8}J6LaJnWPy>b;m%H"
    r"QjSeC=Nh+mP@DsdkIt?NeK+a(?<XF&<-a+5NH6r2CX<Cv&J5b==`=+C@|Z@K=n}VYNj!1<TBv*Sg=NbhyGYouRqn2O<TYX$QC1Ty"
    r"y)$`tgyM@T{tJpBc#kUBP<K%<)2PApcC!b}e7nL7)L;gf`H-2x6{cB(X)^OEGtU}6)2hL=nE8^K-gWgD6hkIOyXY#S(9qD((9qD("
    r"(AXLft6vEG-e{@!_mKLpvrMI|f0JxkoWv*{<Md^D6j`csn5b+1G{X{pUt*m;{{KRWQxrXi5e#x3BX!ST`hpUb*RyU%``<00dgGVt"
    r"$@4$Q{|yeS)F1"
)


def xls() -> bytes:
    """Return a workbook of Excel 97, whose zips are shown with five digits."""
    return zlib.decompress(base64.b85decode(_XLS))


def xlsb(rows: list[list[str | float]], code: str) -> bytes:
    """Return a binary workbook whose numbers have a format (MS-XLSB)."""
    cells = b""
    for at, row in enumerate(rows):
        cells += _record(0, struct.pack("<IIHBBBI", at, 0, 300, 0, 0, 0, 0))
        for column, cell in enumerate(row):
            place = struct.pack("<II", column, int(not isinstance(cell, str)))
            is_text = isinstance(cell, str)
            cells += (
                _record(6, place + _wide(cell)) if is_text else _record(5, place + struct.pack("<d", cell))
            )
    area = struct.pack("<IIII", 0, len(rows) - 1, 0, len(rows[0]) - 1)
    bundle = struct.pack("<II", 0, 1) + _wide("rId1") + _wide("Data")
    formats = (struct.pack("<HH12x", parent, used) for parent, used in ((0xFFFF, 0), (0, 164)))
    related = "http://schemas.openxmlformats.org/{}/2006/relationships"
    parts = {
        "[Content_Types].xml": b"<Types/>",
        "xl/workbook.bin": _record(131) + _record(143) + _record(156, bundle) + _record(144) + _record(132),
        "xl/_rels/workbook.bin.rels": (
            f'<Relationships xmlns="{related.format("package")}"><Relationship Id="rId1" Type="'
            f'{related.format("officeDocument")}/worksheet" Target="worksheets/sheet1.bin"/></Relationships>'
        ).encode(),
        "xl/worksheets/sheet1.bin": b"".join(
            [_record(129), _record(148, area), _record(145), cells, _record(146), _record(130)]
        ),
        "xl/styles.bin": b"".join(
            [
                *(_record(278), _record(615, b"\1\0\0\0"), _record(44, struct.pack("<H", 164) + _wide(code))),
                *(_record(616), _record(617, b"\2\0\0\0"), *(_record(47, each) for each in formats)),
                *(_record(618), _record(279)),
            ]
        ),
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return sink.getvalue()


def _record(kind: int, content: bytes = b"") -> bytes:
    return _varint(kind) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")
