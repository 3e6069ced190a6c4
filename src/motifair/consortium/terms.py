"""The terms of a federation: `federation.toml`, checked, and its digest."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Any

from motifair.config import Config, make_config
from motifair.consortium.member_data import make_model
from motifair.consortium.privacy import Privacy, check_privacy, make_privacy
from motifair.errors import MotifairError, nearest
from motifair.evaluation.metrics import choose_metric
from motifair.graphs.schema import Schema
from motifair.mechanism.bounds import MAX_SIZE_RATIO
from motifair.methods import fit_to_model, make_method, refuse_unused
from motifair.models import Model
from motifair.statements.audits import AuditTerms
from motifair.statements.entry import LONGEST_REASON, AgreedTerms, clean_reason

SECTIONS = ("federation", "server", "money", "audit", "training", "privacy", "schema")
SERVER = {"host": str, "port": int, "ledger": str, "retain_uploads": bool}
_TYPE_NAMES = {str: "a text in quotes", int: "a whole number", bool: "true or false"}
# Options for partitioning, repeating and measuring: members of a federation have their own graphs.
SIMULATION_ONLY = frozenset(
    {
        "dataset", "splits", "fixed_split", "contribution", "incentives", "agents", "scenario",
        "partition", "skew", "perturbation", "features", "edges", "task", "budget", "eval_every",
        "bounded", "spaces",
    }
)  # fmt: skip
TERMS = "federation.toml"
MAX_TIME_RATIO = 1e9  # so that the deadline alone counts
PLACES = 6  # decimal places of a currency, at most
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class Money:
    """Currency with its number of decimal places and, in its smallest units, the budget of a round
    and the largest penalty of a member per round and in total. `reserve` is who holds what falls to
    absent members, '' if the present ones share it.
    """

    currency: str
    digits: int
    budget: int
    max_penalty: int
    max_total_penalty: int
    reserve: str = ""


@dataclass(frozen=True)
class FederationTerms:
    """Terms of a federation: members, money, training, privacy and the schema of graphs.

    A round waits for `quorum` uploads, and for those of others until the server has waited
    `deadline` seconds. A member whose update is longer than `max_norm` counts as absent, as does
    one whose answer takes more than `max_time_ratio` times the median member's. Its number of
    graphs counts at most as `max_size_ratio` times the median member's. `members_key` is the
    SHA-256 of the key with which members hash motifs and fingerprints, '' for none. `audit` is how
    claims are audited after the last round, None for not at all. `given` is the file's content.
    """

    name: str
    members: tuple[str, ...]
    quorum: int
    deadline: float
    max_norm: float
    money: Money
    config: Config
    schema: Schema
    max_size_ratio: float = MAX_SIZE_RATIO
    max_time_ratio: float = MAX_TIME_RATIO
    members_key: str = ""
    host: str = "localhost"
    port: int = 8002
    retain_uploads: bool = True
    ledger: str = "ledger.sqlite"
    privacy: Privacy = field(default_factory=Privacy)
    audit: AuditTerms | None = None
    given: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def pays_by_value(self) -> bool:
        """Whether members are paid by value; otherwise all present members get the same."""
        return make_method(self.config).pays_by_value

    @property
    def conditions(self) -> dict[str, Any]:
        """What a member agrees to besides money and training, as the ledger's terms have it."""
        return {
            "name": self.name,
            "deadline": self.deadline,
            "max_norm": self.max_norm,
            "max_size_ratio": self.max_size_ratio,
            "max_time_ratio": self.max_time_ratio,
            "members_key": self.members_key,
            "schema": self.schema.to_json(),
            "privacy": asdict(self.privacy),
        }

    @cached_property
    def digest(self) -> str:
        """The digest of all that a member agrees to; it does not depend on who the members are."""
        agreed = self.conditions | {
            "money": {k: v for k, v in vars(self.money).items() if k != "reserve" or v},
            "config": self.config.to_json() | {"agents": 0},
        }
        if self.audit is not None:
            agreed["audit"] = asdict(self.audit)
        text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def fingerprint_key(self) -> int:
        """The key of fingerprints, with which those of other federations cannot be compared.

        It depends on the federation's name and schema alone: other terms may change in a run, and
        those who joined before and after must still be comparable.
        """
        about = json.dumps([self.name, self.schema.to_json()], sort_keys=True)
        return int.from_bytes(hashlib.sha256(about.encode()).digest()[:8], "big")

    def with_members(self, members: Iterable[str]) -> FederationTerms:
        """Return the terms with other members."""
        names = tuple(sorted(members))
        return replace(self, members=names, config=replace(self.config, agents=len(names)))

    def for_ledger(self, keys: Mapping[str, str], operator: str = "") -> AgreedTerms:
        """Return the terms for the ledger, with the public keys of members and operator."""
        m = self.money
        return AgreedTerms(
            members={name: keys[name] for name in self.members},
            budget=m.budget,
            digits=m.digits,
            currency=m.currency,
            max_penalty=m.max_penalty,
            max_total_penalty=m.max_total_penalty,
            rounds=self.config.rounds,
            quorum=self.quorum,
            method=self.config.method,
            pays="value" if self.pays_by_value else "equal",
            config=self.config.to_json(),
            operator=operator,
            conditions=self.conditions,
            reserve=m.reserve,
            audit={} if self.audit is None else asdict(self.audit),
        )

    def as_agreed(self, agreed: AgreedTerms) -> FederationTerms:
        """Return the terms that an entry of the ledger puts into force, in place of these."""
        names = ("currency", "digits", "budget", "max_penalty", "max_total_penalty", "reserve")
        known = self.conditions | agreed.conditions  # the first ledgers had none
        plain = (
            "name", "deadline", "max_norm", "max_size_ratio", "max_time_ratio", "members_key",
        )  # fmt: skip
        return replace(
            self,
            members=tuple(sorted(agreed.members)),
            quorum=agreed.quorum,
            money=Money(**{name: getattr(agreed, name) for name in names}),
            config=make_config(agreed.config),
            schema=Schema.from_json(known["schema"]),
            privacy=Privacy(**known["privacy"]),
            audit=AuditTerms(**agreed.audit) if agreed.audit else None,
            **{name: known[name] for name in plain},
        )


def read_terms(path: Path) -> FederationTerms:
    """Read and check `federation.toml`."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise MotifairError(
            f"{path} cannot be read: {reason}; create it with: motifair federation init."
        ) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise MotifairError(f"{path} is not valid TOML: {error}.") from error
    return make_terms(content)


def make_terms(content: Mapping[str, Any]) -> FederationTerms:
    """Check the content of `federation.toml` and return the terms."""
    for name in content:
        if name not in SECTIONS:
            raise MotifairError(
                f"federation.toml has no section '{name}'. {nearest(name, SECTIONS)}"
            )
    needed = {"name", "members", "quorum", "deadline", "max_norm"}
    usual = {
        "max_size_ratio": MAX_SIZE_RATIO, "max_time_ratio": MAX_TIME_RATIO, "members_key": "",
    }  # fmt: skip
    about = usual | _section(content, "federation", needed, optional=set(usual))
    server = _section(content, "server", set(), optional=set(SERVER))
    for name, value in server.items():
        if type(value) is not SERVER[name] or value == "":
            raise MotifairError(
                f"{name} in [server] must be {_TYPE_NAMES[SERVER[name]]}, not {value!r}."
            )
    if "port" in server:
        _number(server, "port", least=1, most=65_535, whole=True)
    members = _members(about["members"])
    schema = Schema.from_json(content.get("schema", {}))
    config = _training(content.get("training", {}), len(members), schema.predicted.kind)
    model = make_model(config, schema)
    if config.model:
        config, content = _with_model(config, model, content)
    terms = FederationTerms(
        name=_name(about["name"], "The federation's name"),
        members=members,
        quorum=_number(about, "quorum", least=1, most=len(members), whole=True),
        deadline=_number(about, "deadline", least=0.1, most=86_400),
        max_norm=_number(about, "max_norm", least=1e-9, most=1e9),
        max_size_ratio=_number(about, "max_size_ratio", least=1, most=1e9),
        max_time_ratio=_number(about, "max_time_ratio", least=2, most=MAX_TIME_RATIO),
        members_key=_sha256(about["members_key"]),
        money=_money(content),
        config=config,
        schema=schema,
        privacy=make_privacy(content.get("privacy")),
        audit=_audit(content),
        given=content,
        **server,
    )
    method = make_method(terms.config)
    shared = model.layout.shared(method.share)
    size = shared.stop - shared.start
    sends = method.shares_moments(model.task)
    check_privacy(terms.privacy, method, size, model.hidden, terms.max_norm, moments=sends)
    if terms.audit is not None and not method.believes:
        raise MotifairError(
            'An audit asks for fingerprints of graphs, which need size = "believed" in [training]; '
            "set it, or remove [audit]."
        )
    if terms.audit is not None and not terms.money.reserve:
        raise MotifairError(
            "Fines of an audit go to the reserve; name it in [money], or remove [audit]."
        )
    return terms


def _with_model(
    config: Config, model: Model, content: Mapping[str, Any]
) -> tuple[Config, dict[str, Any]]:
    """Return configuration and content with the digest of a module that members bring, so that an
    agent whose module is another one refuses to begin.
    """
    from motifair.models.module import ModuleModel  # importing PyG takes seconds

    assert isinstance(model, ModuleModel)
    training = content["training"]
    name = f"{model.name}#{model.digest(config.seed)}"
    config = replace(fit_to_model(config, model, training), model=name)
    return config, {**content, "training": {**training, "model": name}}


def _section(
    content: Mapping[str, Any], name: str, needed: set[str], *, optional: Set[str] = frozenset()
) -> dict[str, Any]:
    section = content.get(name, {})
    if not isinstance(section, dict):
        raise MotifairError(f"[{name}] of federation.toml must be a section.")
    for key in section:
        if key not in needed | optional:
            raise MotifairError(f"[{name}] has no '{key}'. {nearest(key, needed | optional)}")
    missing = sorted(needed - section.keys())
    if missing:
        raise MotifairError(f"federation.toml has no '{missing[0]}'; add it to [{name}].")
    return dict(section)


def _name(name: Any, whose: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise MotifairError(
            f"{whose} is '{name}'; use lower-case letters, digits and hyphens, at most 63 of them."
        )
    return name


def _sha256(given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"([0-9a-f]{64})?", given):
        raise MotifairError(
            "members_key in [federation] is the SHA-256 that motifair federation members-key "
            "prints, never the key itself."
        )
    return given


def _members(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) < 2:
        raise MotifairError("A federation needs at least two members; name them in [federation].")
    names = [_name(n, "A member's name") for n in given]
    for name in names:
        if names.count(name) > 1:
            raise MotifairError(f"Two members are called '{name}'; give one of them another name.")
    return tuple(sorted(names))


def _number(
    section: Mapping[str, Any], name: str, *, least: float, most: float, whole: bool = False
) -> Any:
    value = section[name]
    kinds: Any = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise MotifairError(f"{name} must be {kind} from {least:g} to {most:g}, not {value}.")
    return value if whole else float(value)


def _money(content: Mapping[str, Any]) -> Money:
    names = ("budget", "max_penalty", "max_total_penalty")
    section = _section(content, "money", {"currency", *names}, optional={"reserve"})
    amounts = [_amount(name, section[name]) for name in names]
    digits = max(max(0, -int(a.as_tuple().exponent)) for a in amounts)
    if digits > PLACES:
        raise MotifairError(f"Amounts have at most {PLACES} decimal places.")
    budget, penalty, total = (int(a.scaleb(digits)) for a in amounts)
    held = _holder(section.get("reserve", ""))
    return Money(str(section["currency"]), digits, budget, penalty, total, held)


def _holder(given: Any) -> str:
    if not isinstance(given, str) or given != clean_reason(given):
        raise MotifairError(
            f"reserve in [money] says who holds it, in at most {LONGEST_REASON} printable "
            'characters, e.g. "the operator"; remove it, and members present share it.'
        )
    return given


def _amount(name: str, given: Any) -> Decimal:
    """Return an amount of money as a decimal; refuse a floating-point number."""
    try:
        amount = Decimal(given) if type(given) in (str, int) else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0 or amount >= 10**9:
        raise MotifairError(f'{name} must be an amount in quotes such as "1000.00", not {given}.')
    return amount


def _audit(content: Mapping[str, Any]) -> AuditTerms | None:
    if "audit" not in content:
        return None
    names = {f.name for f in fields(AuditTerms)}
    terms = AuditTerms(**_section(content, "audit", set(), optional=names))
    for flaw in terms.flaws():
        raise MotifairError(f"[audit]: {flaw}.")
    return terms


def _training(given: Any, members: int, task: str) -> Config:
    if not isinstance(given, dict):
        raise MotifairError("[training] of federation.toml must be a section.")
    for name in given:
        if name in SIMULATION_ONLY:
            raise MotifairError(f"[training] cannot set {name}: it is for simulations; remove it.")
    config = make_config(given | {"agents": members, "bounded": True, "task": task})
    config = replace(config, metric=choose_metric(task, config.metric))
    method = make_method(config)
    refuse_unused(config, given)
    if "payoff" in method.options and config.payoff != "paper":
        raise MotifairError(
            f"payoff={config.payoff} is for simulations; a federation pays by value: remove it."
        )
    # Other methods keep state by agent, exchange graphs or cluster agents: they need all agents.
    if not method.deployable:
        raise MotifairError(
            f"{config.method} runs in simulation only; use motifair, fedavg or fedprox."
        )
    return config
