"""Workbooks of given cells, as people's spreadsheets write them."""

import io
import zipfile
from datetime import date, datetime
from typing import Any
from xml.sax.saxutils import escape

import xlsxwriter

_SPREADSHEET = (
    '<?xml version="1.0" encoding="UTF-8"?><office:document-content'
    ' xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    ' xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"'
    ' office:version="1.2"><office:body><office:spreadsheet>{}</office:spreadsheet></office:body>'
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


def xlsx(sheets: dict[str, list[list[Any]]], merged: tuple[tuple[int, int, int, int], ...] = ()) -> bytes:
    """Return a workbook; `merged` are areas of the first sheet, which have the value of their first cell."""
    sink = io.BytesIO()
    book = xlsxwriter.Workbook(sink, {"in_memory": True})
    day = book.add_format({"num_format": "dd.mm.yyyy"})
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
                    sheet.write(at, column, cell)
        for top, left, bottom, right in merged if number == 0 else ():
            sheet.merge_range(top, left, bottom, right, rows[top][left])
    book.close()
    return sink.getvalue()


def ods(sheets: dict[str, list[list[Any]]]) -> bytes:
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
        archive.writestr("content.xml", _SPREADSHEET.format(tables))
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
