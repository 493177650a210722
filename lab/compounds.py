"""Read compounds with their activity from a folder, and describe their topology by RDKit.

The folder's table `*.csv` has the columns "smiles", a structure, and "activity": 1 or 0, or the classes of
the NCI's AIDS screen, CA and CM for active (confirmed, moderately) and CI for inactive. Chipman, George and
McCulloch (2010), section 5.3, have 29,374 compounds of that screen, 542 of them active, with 266 descriptors.
A later release is in public copies of MoleculeNet as HIV.csv, with 41,127 compounds.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ACTIVE = {"1": True, "CA": True, "CM": True, "0": False, "CI": False}
# of RDKit, a number each: connectivity, shape, surface, kinds of rings
NUMBERS = (
    *(f"Chi{order}{kind}" for kind in "nv" for order in range(5)),
    *("Kappa1", "Kappa2", "Kappa3", "HallKierAlpha", "Phi", "LabuteASA", "TPSA", "FractionCSP3"),
    *(f"Num{kind}Rings" for kind in ("Aliphatic", "Aromatic", "Saturated")),
    *(f"Num{kind}Carbocycles" for kind in ("Aliphatic", "Aromatic", "Saturated")),
    *(f"Num{kind}Heterocycles" for kind in ("Aliphatic", "Aromatic", "Saturated")),
    *("NumSpiroAtoms", "NumBridgeheadAtoms", "NumAmideBonds"),
)
GRAPH = ("BertzCT", "BalabanJ")
VECTORS = {"CalcAUTOCORR2D": "AutoCorr2D", "MQNs_": "MQN"}
LENGTHS = {"CalcAUTOCORR2D": 192, "MQNs_": 42}
NAMES = (
    *(f"{name}_{k + 1}" for function, name in VECTORS.items() for k in range(LENGTHS[function])),
    *NUMBERS,
    *GRAPH,
)


@dataclass(frozen=True)
class Compounds:
    """Descriptors [compound, descriptor] by `NAMES`, activity [compound], and the number left out."""

    X: NDArray[np.float64]
    active: NDArray[np.bool_]
    left_out: int


def read(folder: Path) -> list[tuple[str, bool]]:
    """Read structures and whether they are active.

    Raises ValueError for a folder with none or several tables, a table without the two columns, and another
    activity, with its line.
    """
    tables = sorted(folder.glob("*.csv"))
    if len(tables) != 1:
        raise ValueError(f"{folder} has {len(tables)} files *.csv: leave the one table of compounds")
    found = []
    with tables[0].open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        if missing := {"smiles", "activity"} - set(rows.fieldnames or ()):
            raise ValueError(f"{tables[0]} has no column {' and no '.join(sorted(missing))}")
        for row in rows:
            if row["activity"] not in ACTIVE:
                raise ValueError(
                    f"{tables[0]}, line {rows.line_num}: the activity {row['activity']!r} is none of "
                    f"{', '.join(ACTIVE)}"
                )
            found.append((row["smiles"], ACTIVE[row["activity"]]))
    return found


def described(compounds: list[tuple[str, bool]]) -> Compounds:
    """Compute the descriptors; leave out structures that RDKit doesn't understand."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import GraphDescriptors, rdMolDescriptors

    RDLogger.DisableLog("rdApp.*")
    vectors = [getattr(rdMolDescriptors, name) for name in VECTORS]
    numbers = [getattr(rdMolDescriptors, f"Calc{name}") for name in NUMBERS]
    numbers += [getattr(GraphDescriptors, name) for name in GRAPH]
    X, active = [], []
    for smiles, each in compounds:
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is not None and molecule.GetNumAtoms():
            values = [value for function in vectors for value in function(molecule)]
            X.append(values + [function(molecule) for function in numbers])
            active.append(each)
    table = np.array(X, np.float64).reshape(len(X), len(NAMES))
    whole = np.isfinite(table).all(axis=1)
    return Compounds(table[whole], np.array(active, np.bool_)[whole], len(compounds) - int(whole.sum()))
