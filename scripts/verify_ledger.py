#!/usr/bin/env python3
"""A second verifier of ledgers, written from docs/ledger.md: it imports nothing of motifair.

    verify_ledger.py LEDGER [--heads heads.jsonl] [--operator-key operator.pub]

LEDGER is a SQLite file, or what `motifair ledger export --format json` wrote. It needs Python 3.11
and `cryptography`. Exit code 0 if all runs are verified, 1 if not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

LINE = {
    "agent": str, "status": str, "reason": str, "value": int, "alignment": (int, type(None)),
    "diversity": (int, type(None)), "compensation": int, "kept": int, "payoff": int, "upload": str,
    "signature": str,
}  # fmt: skip
ENTRY = {
    "run": str, "number": int, "kind": str, "round": int, "settled": bool, "budget": int,
    "terms": str, "lines": list, "previous": str,
}  # fmt: skip
COUNTS = ("budget", "digits", "max_penalty", "max_total_penalty", "rounds", "quorum")


class WrongEntryError(Exception):
    """What is wrong with an entry."""


def require(condition, what):
    """Refuse an entry unless a condition holds."""
    if not condition:
        raise WrongEntryError(what)


def sha256(content):
    """SHA-256 of canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def is_signed(key, signature, message):
    """Return whether a signature (hex, RSA PKCS#1 v1.5 with SHA-256) is by the key (PEM)."""
    try:
        public = load_pem_public_key(key.encode())
        public.verify(bytes.fromhex(signature), message.encode(), PKCS1v15(), SHA256())
    except (InvalidSignature, ValueError, TypeError, AttributeError):
        return False
    return True


def has_types(row, types):
    """Return whether all fields are there, of their types; a bool is no number."""
    return all(
        isinstance(row.get(name), kind) and (kind is bool or not isinstance(row[name], bool))
        for name, kind in types.items()
    )


class Run:
    """What the next entry of a run depends on."""

    def __init__(self, operator=""):
        self.operator, self.terms = operator, None
        self.number, self.round, self.head, self.carried = 0, 0, "0" * 64, 0
        self.fined, self.values = {}, {}  # units paid as penalties; earlier values by member
        self.earned, self.keys, self.closed = {}, {}, False  # `keys`: of all that were ever members

    def take(self, entry, kept):
        """Check the next entry; `kept` is its hash as a member kept it, or None."""
        require(has_types(entry, ENTRY), "a field is missing or of another type")
        require(not self.closed, "nothing follows the audit of claims")
        require(entry["number"] == self.number, f"it should have the number {self.number}")
        require(entry["previous"] == self.head, "previous is not the hash of the entry before")
        content = {k: v for k, v in entry.items() if k not in ("hash", "signature")}
        require(set(content) <= {*ENTRY, "position"}, "it has other fields")
        require(content.get("position", "x") != "", "position is empty")
        digest = sha256(content)
        require(entry.get("hash", digest) == digest, "its hash is not the recorded one")
        require(kept in (None, digest), "a member kept another hash")
        if entry["kind"] == "terms":
            self.agree(entry)
        elif entry["kind"] == "audit":
            self.audit(entry)
        else:
            require(entry["kind"] == "round", "it is neither terms, a round nor an audit")
            self.settle(entry)
        self.check_operator(entry, digest)
        self.number, self.head = self.number + 1, digest

    def agree(self, entry):
        """Check new terms and put them into force."""
        require(not entry["lines"] and not entry["settled"] and not entry["budget"], "terms pay")
        require(entry["round"] == self.round, "its round is not the last one")
        try:
            terms = json.loads(entry["terms"])
            for name in COUNTS:
                require(type(terms[name]) is int and terms[name] >= 0, f"{name} is no count")
            require(terms["pays"] in ("value", "equal"), "pays is neither value nor equal")
            members = terms["members"]
            require(isinstance(members, dict) and members, "there are no members")
            require(isinstance(terms["currency"], str), "the currency is no text")
            require(isinstance(terms.get("reserve", ""), str), "the reserve is no text")
            self.check_audit_terms(terms.get("audit", {}), terms)
        except (ValueError, KeyError, TypeError) as error:
            raise WrongEntryError("the terms cannot be read") from error
        for name, key in members.items():
            require(isinstance(key, str), f"the key of {name} is no text")
            if key:
                try:
                    load_pem_public_key(key.encode())
                except ValueError:
                    raise WrongEntryError(f"the key of {name} is no key") from None
        if self.terms is not None:
            for name in ("currency", "digits"):
                require(terms[name] == self.terms[name], f"the {name} changed")
            before = self.terms.get("operator", "")
            require(before in ("", terms.get("operator", "")), "the operator's key changed")
            if before:
                self.check_consent(entry, terms)
        self.terms = terms
        self.keys |= members

    def check_audit_terms(self, audit, terms):
        """Check what the terms say of an audit of claims; {} for none."""
        if audit == {}:
            return
        require(set(audit) == {"share", "graphs", "fine", "days"}, "the audit has other fields")
        require(type(audit["share"]) in (int, float) and 0 < audit["share"] <= 1, "no share")
        for name, most in (("graphs", 10_000), ("fine", 1000), ("days", 3650)):
            require(type(audit[name]) is int and 1 <= audit[name] <= most, f"no {name}")
        require(terms.get("reserve", ""), "there is no reserve for fines")

    def audit(self, entry):
        """Check the audit of claims: who was drawn by the last hash, answers, and fines."""
        audit = self.terms.get("audit", {}) if self.terms else {}
        require(audit, "the terms have no audit of claims")
        require(self.round >= self.terms["rounds"], "the audit is after the last round")
        require(entry["round"] == self.round, "its round is not the last one")
        require(not entry["terms"] and not entry["settled"] and not entry["budget"], "it settles")
        drawn = []
        for name in sorted(self.keys):
            word = hashlib.sha256(f"{self.head}/{name}".encode()).hexdigest()[:8]
            drawn += [name] * (int(word, 16) < audit["share"] * 2**32)
        lines = entry["lines"]
        require(all(has_types(x, LINE) and len(x) == len(LINE) for x in lines), "a line is cut")
        require([x["agent"] for x in lines] == drawn, f"drawn are {drawn}")
        for x in lines:
            name, answered = x["agent"], x["status"] != "absent"
            self.check_line(entry, x, self.keys[name])
            signed = bool(x["signature"]) or not self.keys[name]
            require(signed or not answered, f"the answer of {name} is not signed")
            fine = 0 if x["status"] == "present" else audit["fine"] * self.earned.get(name, 0)
            require(x["payoff"] == -fine, f"{name} is due {-fine}")
            nothing = [x[k] for k in ("value", "alignment", "diversity", "compensation", "kept")]
            require(nothing == [0, None, None, 0, 0], f"{name} has a value in an audit")
        self.closed = True

    def check_consent(self, entry, terms):
        """Check that all members signed changed terms, with the keys that they had."""
        signatures = terms.get("signatures", {})
        require(isinstance(signatures, dict), "the signatures of the terms cannot be read")
        digest = sha256({k: v for k, v in terms.items() if k != "signatures"})
        for name, key in terms["members"].items():
            require(self.terms["members"].get(name, key) == key, f"the key of {name} changed")
            text = f"{entry['run']}/{entry['round']}/{name}/{digest}/{entry['previous']}"
            signed = not key or is_signed(key, signatures.get(name, ""), text)
            require(signed, f"{name} did not sign the changed terms")

    def check_operator(self, entry, digest):
        """Check the operator's signature of an entry's hash."""
        key = self.terms.get("operator", "")
        if not key:
            require(not self.operator or entry["kind"] != "round", "no operator signed it")
            return
        require(self.operator in ("", key), "it names another operator")
        require(is_signed(key, entry.get("signature", ""), digest), "the operator did not sign it")

    def settle(self, entry):
        """Check a round: its lines, and every amount computed again."""
        require(self.terms is not None, "there are no terms before it")
        terms, lines = self.terms, entry["lines"]
        require(entry["terms"] == "", "a round has terms")
        require(entry["round"] == self.round + 1, f"it should be round {self.round + 1}")
        require(entry["round"] <= terms["rounds"], "the terms have fewer rounds")
        require(
            all(has_types(x, LINE) and len(x) == len(LINE) for x in lines), "a line is not whole"
        )
        require(
            [x["agent"] for x in lines] == sorted(terms["members"]),
            "the lines are not of the members",
        )
        for x in lines:
            self.check_line(entry, x, terms["members"][x["agent"]])
        budget = terms["budget"] + self.carried
        bonus, payoffs = self.payoffs(lines, budget)
        require(entry["budget"] == budget, f"the budget should be {budget}")
        require(entry["settled"] == (payoffs is not None), "settled is wrong")
        for x in lines:
            due = (0, 0) if payoffs is None else (bonus[x["agent"]], payoffs[x["agent"]])
            require((x["compensation"], x["payoff"]) == due, f"{x['agent']} is due {due}")
            self.fined[x["agent"]] = self.fined.get(x["agent"], 0) + max(-x["payoff"], 0)
            self.earned[x["agent"]] = self.earned.get(x["agent"], 0) + max(x["payoff"], 0)
            if payoffs is not None and x["status"] == "present":
                self.values.setdefault(x["agent"], []).append(x["value"])
        self.round, self.carried = entry["round"], 0 if payoffs is not None else budget

    def check_line(self, entry, x, key):
        """Check a member's line, and its signature of upload, or answer, and history."""
        name, present = x["agent"], x["status"] == "present"
        require(x["status"] in ("present", "absent", "rejected"), f"{name} has no status")
        require(not (present and x["reason"]), f"{name} was present and has a reason")
        require(x["reason"].isprintable(), f"the reason of {name} cannot be printed")
        if x["signature"]:
            text = f"{entry['run']}/{entry['round']}/{name}/{x['upload']}"
            forms = (f"{text}/{entry['previous']}", text)
            signed = any(is_signed(key, x["signature"], form) for form in forms)
            require(signed, f"{name} did not sign its upload after this history")
        else:
            require(not (key and present), f"the upload of {name} is not signed")

    def payoffs(self, lines, budget):
        """Return the compensations, and the payoffs or None if the round is not settled."""
        terms = self.terms
        present = {x["agent"] for x in lines if x["status"] == "present"}
        by_value = terms["pays"] == "value"
        bonus = {
            x["agent"]: self.bonus(x) if by_value and x["agent"] in present else 0 for x in lines
        }
        if len(present) < terms["quorum"]:
            return bonus, None
        # With a reserve absent members have a share, which goes to the reserve.
        counted = {x["agent"] for x in lines} if terms.get("reserve", "") else present
        if not by_value:
            paid = split({x["agent"]: int(x["agent"] in counted) for x in lines}, budget)
            return bonus, paid and {n: u if n in present else 0 for n, u in paid.items()}
        p = {}
        for x in lines:
            name, value = x["agent"], x["value"]
            p[name] = value if value < 0 else value + bonus[name] if name in counted else 0
        if not any(p[name] > 0 for name in present):
            return bonus, None
        total, fines = sum(p.values()), {}
        for name in p:
            if p[name] < 0:
                left = max(terms["max_total_penalty"] - self.fined.get(name, 0), 0)
                most = min(terms["max_penalty"], left)
                fines[name] = min(budget * -p[name] // total, most) if total > 0 else most
        paid = split({n: max(w, 0) for n, w in p.items()}, budget + sum(fines.values()))
        if paid is None:
            return bonus, None
        return bonus, {n: paid[n] * (n in present) - fines.get(n, 0) for n in p}

    def bonus(self, x):
        """Return the compensation of a present member."""
        earlier = self.values.get(x["agent"], [])
        if not earlier or x["value"] < 0:
            return 0
        mean = abs(sum(earlier)) // len(earlier)
        return max(x["value"] - (mean if sum(earlier) >= 0 else -mean), 0)


def split(weights, units):
    """Split whole units by the largest remainders, ties by name; None if nobody has a weight."""
    total = sum(weights.values())
    if total <= 0:
        return None
    paid = {name: units * w // total for name, w in weights.items()}
    rest = sorted(weights, key=lambda n: (-(units * weights[n] % total), n))
    for name in rest[: units - sum(paid.values())]:
        paid[name] += 1
    return paid


def verify(entries, heads=None, operator=""):
    """Return what is wrong with the entries of one run, '' if nothing.

    `heads` maps numbers of entries to the hashes that a member kept.
    """
    run, heads, name = Run(operator), dict(heads or {}), None
    for place, entry in enumerate(entries):
        try:
            name = entry["run"] if name is None else name
            require(entry["run"] == name, "it is of another run")
            run.take(entry, heads.pop(place, None))
        except WrongEntryError as wrong:
            return f"entry {place}: {wrong}"
    for number in sorted(heads):
        return f"entry {number} is missing: a member kept its hash"
    if operator and run.terms and not run.terms.get("operator"):
        return "entry 0: no operator signed it"
    return ""


def read(path):
    """Return the entries of each run."""
    if path.read_bytes()[:6] == b"SQLite":
        entries = read_sqlite(path)
    else:
        entries = json.loads(path.read_text())
    runs = {}
    for entry in entries:
        runs.setdefault(entry["run"], []).append(entry)
    return runs


def read_sqlite(path):
    """Yield the entries of a SQLite ledger."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    for row in database.execute("SELECT * FROM entries ORDER BY run, number"):
        entry = dict(row)
        if entry["settled"] in (0, 1):
            entry["settled"] = bool(entry["settled"])
        if not entry.get("position"):
            entry.pop("position", None)
        place = (entry["run"], entry["number"])
        found = database.execute("SELECT * FROM lines WHERE run = ? AND number = ?", place)
        entry["lines"] = [{k: x[k] for k in LINE} for x in found]
        entry["lines"].sort(key=lambda x: x["agent"])
        yield entry


def main():
    """Verify the ledger that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--heads", type=Path)
    parser.add_argument("--operator-key", type=Path)
    given = parser.parse_args()
    kept = {}
    lines = given.heads.read_text(errors="replace").splitlines() if given.heads else ()
    for place, line in enumerate(lines, 1):
        try:
            head = json.loads(line)
            kept.setdefault(head["run"], {})[head["number"]] = head["hash"]
        except (ValueError, KeyError, TypeError):
            print(f"{given.heads}: line {place} cannot be read and was not compared")
    operator = given.operator_key.read_text() if given.operator_key else ""
    runs, bad = read(given.ledger), False
    for run in sorted({*runs, *kept}):
        wrong = verify(runs.get(run, []), kept.get(run), operator)
        print(f"{run}: {wrong or 'verified'}")
        bad = bad or bool(wrong)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
