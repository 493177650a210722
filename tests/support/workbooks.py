"""Workbooks of given cells, as people's spreadsheets write them."""

import io
import re
import zipfile
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
    zeros: dict[int, int] | None = None,
) -> bytes:
    """Return a workbook.

    `merged` are areas of the first sheet, which have the value of their first cell; numbers of the columns
    `zeros` are shown with so many digits.
    """
    sink = io.BytesIO()
    book = xlsxwriter.Workbook(sink, {"in_memory": True})
    day = book.add_format({"num_format": "dd.mm.yyyy"})
    of_digits = {
        column: book.add_format({"num_format": "0" * digits}) for column, digits in (zeros or {}).items()
    }
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
