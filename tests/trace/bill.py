"""The bill of a public GPU trace, by plain fractions: what contador's must equal to the last digit.

    bill.py allocations PODS.csv >allocations.csv    the scheduled pods with GPUs, each with a department drawn once for ever
    bill.py prices >prices.toml                      rates by model, one of them changing in the middle of a month
    bill.py compare PODS.csv MONTH REPORT.json       MONTH such as 1970-02, or "all"; exits 1 at the first difference

PODS.csv has the columns of openb_pod_list of the Alibaba cluster trace GPU v2023. It shares nothing with contador: months, prices,
overlaps, sums and rounding are calculated here anew.
"""

import csv
import datetime
import json
import random
import sys
import zoneinfo
from fractions import Fraction

ZONE = zoneinfo.ZoneInfo("Asia/Shanghai")
DEPARTMENTS = ["", "ads", "maps", "search", "speech", "vision"]
PROJECTS = ["alpha", "beta", "gamma"]
# Model: rates from an instant on (Unix seconds). A pod that may run on several models is billed as the first, and one that does not say
# on which as one drawn once for ever.
CHANGE = int(datetime.datetime(1970, 3, 10, 12, 0, tzinfo=ZONE).timestamp())
RATES = {
    "A10": [(0, "0.937")],
    "G1": [(0, "0.31")],
    "G2": [(0, "1.111111"), (CHANGE, "0.999999")],
    "G3": [(0, "2.50")],
    "P100": [(0, "0.42")],
    "T4": [(0, "0.35"), (CHANGE, "0.333333333333")],
    "V100M16": [(0, "1.05")],
    "V100M32": [(0, "1.30"), (CHANGE, "1.45")],
}


def pods(path):
    """Who held what: start and end in seconds, GPUs, thousandths of each, model, department and project."""
    draw = random.Random(2023)
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            department, project, model = draw.choice(DEPARTMENTS), draw.choice(PROJECTS), draw.choice(list(RATES))
            if not row["scheduled_time"] or int(row["num_gpu"]) == 0:
                continue
            start, end = int(row["scheduled_time"]), int(row["deletion_time"])
            if end <= start:
                continue
            model = row["gpu_spec"].split("|")[0] or model
            yield row["name"], start, end, int(row["num_gpu"]), int(row["gpu_milli"]), model, department, project


def month(text):
    """A local month's first instant and the next one's, Unix seconds."""
    year, number = map(int, text.split("-"))
    following = (year + number // 12, number % 12 + 1)
    return tuple(int(datetime.datetime(*of, 1, tzinfo=ZONE).timestamp()) for of in ((year, number), following))


def seconds(start, end, since, until):
    return max(0, min(end, until) - max(start, since))


def exact(path, since, until):
    """GPU-hours and cost of each department."""
    hours, costs = {}, {}
    for _, start, end, gpus, milli, model, department, _ in pods(path):
        gpu = gpus * Fraction(milli, 1000)
        rates = RATES[model]
        for place, (begins, rate) in enumerate(rates):
            ends = rates[place + 1][0] if place + 1 < len(rates) else until
            held = gpu * seconds(start, end, max(since, begins), min(until, ends)) / 3600
            if held:
                hours[department] = hours.get(department, 0) + held
                costs[department] = costs.get(department, 0) + held * Fraction(rate)
    return hours, costs


def rounded(parts):
    """Millionths: the sum rounded once, half up, and split by largest remainder, the first name of equals."""
    whole = sum(parts.values(), Fraction(0)) * 1_000_000
    units = (whole * 2 + 1) // 2
    scaled = {name: units * part * 1_000_000 / whole for name, part in sorted(parts.items())}
    split = {name: part // 1 for name, part in scaled.items()}
    missing = units - sum(split.values())
    for name in sorted(scaled, key=lambda name: (split[name] - scaled[name], name))[:missing]:
        split[name] += 1
    return units, split


def shown(units):
    return f"{units // 1_000_000}.{units % 1_000_000:06d}"


def compare(path, of, report):
    rows = list(pods(path))
    since, until = (min(row[1] for row in rows), max(row[2] for row in rows)) if of == "all" else month(of)
    hours, costs = exact(path, since, until)
    total, departments = rounded(costs)
    held, _ = rounded(hours)
    expected = {
        "total": shown(total),
        "total_exact": str(sum(costs.values(), Fraction(0))),
        "gpu_hours": shown(held),
        "gpu_hours_exact": str(sum(hours.values(), Fraction(0))),
    }
    for name, units in departments.items():
        expected[name or "(none)"] = shown(units)
    with open(report, encoding="utf-8") as file:
        found = json.load(file)
    groups = {group["key"]: group["cost"] for group in found["groups"]}
    for name, value in expected.items():
        told = found[name] if name in ("total", "total_exact", "gpu_hours", "gpu_hours_exact") else groups.pop(name, None)
        if told != value:
            sys.exit(f"{of}: {name}: contador says {told}, expected {value}")
    if groups:
        sys.exit(f"{of}: contador has {groups}, expected no more departments")
    print(f"{of}: {len(departments)} departments, {expected['gpu_hours']} GPU-hours, {expected['total']} EUR: equal")


def main(arguments):
    match arguments:
        case ["allocations", path]:
            print("start,end,node,device,gpu_model,gpus,fraction,environment,department,project,experiment,user,service,job")
            for name, start, end, gpus, milli, model, department, project in pods(path):
                print(f"{start},{end},,,{model},{gpus},{milli // 1000}.{milli % 1000:03d},,{department},{project},,,,{name}")
        case ["prices"]:
            print('currency = "EUR"\ntime_zone = "Asia/Shanghai"\n')
            for model, rates in RATES.items():
                for begins, rate in rates:
                    print(f'\n[[rate]]\ngpu_model = "{model}"\nhourly = "{rate}"')
                    if begins:
                        when = datetime.datetime.fromtimestamp(begins, datetime.UTC)
                        print(f"valid_from = {when:%Y-%m-%dT%H:%M:%SZ}")
        case ["compare", path, of, report]:
            compare(path, of, report)
        case ["months", path]:
            rows = list(pods(path))
            first, last = (datetime.datetime.fromtimestamp(at, ZONE) for at in (0, max(row[2] for row in rows)))
            for number in range(first.year * 12 + first.month - 1, last.year * 12 + last.month):
                print(f"{number // 12}-{number % 12 + 1:02d}")
        case ["span", path]:
            rows = list(pods(path))
            print(min(row[1] for row in rows), max(row[2] for row in rows))
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
