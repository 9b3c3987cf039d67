"""Several servers measured as one: whether they are replicas of each other.

They must serve one model and count prompts alike, else a session would be another one on another
server. What else they differ in is told. Not for: which lane plays where (endpoint/replicas.py).
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentx_replay.endpoint.counting import Counter, UncountedError
from agentx_replay.endpoint.readiness import ServerFacts, ask_server
from agentx_replay.endpoint.scrape import MetricsPage, page_url, server_page
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import refuse_twice
from agentx_replay.errors import UsageError
from agentx_replay.experiment.server_metrics import metrics_pages
from agentx_replay.prompts.calibration import Calibration, Room
from agentx_replay.prompts.probes import Count, Probe, ProbeMaker
from agentx_replay.reason import Reason

_UNUSABLE = 3
_COMPARED = 10
_LONGEST_TOKENS = 512
_POOL = "kv_cache_pool_tokens"
_TOLD = {
    "max_model_len": "context limit",
    "max_tokens_field": "output limit field",
    "ignore_eos": "ignore_eos",
    "usage_reported": "reporting usage",
    "cached_tokens_reported": "reporting cached tokens",
    "server": "name",
}
"""What replicas may differ in, and how it is called."""


async def ask_replicas(servers: Sequence[EndpointSettings]) -> list[ServerFacts]:
    """Return what each server is and can do. The model is the one asked for, or the only one of
    the first.

    Raises UsageError (exit code 3), naming the server, where one is unusable or does not list it.
    """
    first = await _asked(servers[0], several=len(servers) > 1)
    facts = [first]
    for server in servers[1:]:
        told = await _asked(replace(server, model=first.model), several=True)
        if first.model in first.served_models and first.model not in told.served_models:
            raise UsageError(
                "replica-without-model",
                f"{server.url} does not list the model {first.model!r} that {servers[0].url} "
                "serves",
                "give the URLs of replicas of one model",
                exit_code=_UNUSABLE,
            )
        facts.append(told)
    return facts


async def _asked(server: EndpointSettings, *, several: bool) -> ServerFacts:
    try:
        return await ask_server(server)
    except UsageError as error:
        if not several:
            raise
        raise UsageError(
            "replica-unusable",
            f"{server.url} cannot be measured: {error.what}",
            error.what_to_do,
            exit_code=error.exit_code,
        ) from error


def replica_warnings(
    servers: Sequence[EndpointSettings], facts: Sequence[ServerFacts]
) -> tuple[Reason, ...]:
    """Return everything in which the servers differ."""
    return tuple(
        _difference(called, servers, values)
        for name, called in _TOLD.items()
        if len(set(values := [getattr(told, name) for told in facts])) > 1
    )


def _difference(
    called: str, servers: Sequence[EndpointSettings], values: Sequence[object]
) -> Reason:
    each = zip(servers, values, strict=True)
    said = ", ".join(f"{_plain(value)} at {server.url}" for server, value in each)
    return Reason("replicas-differ", f"the servers differ in {called}: {said}")


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not told" if value is None else str(value)


async def replicas_facts(
    servers: Sequence[EndpointSettings], pages: Sequence[MetricsPage]
) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """Return the facts of the system that all servers tell alike, the KV pool as the sum of theirs;
    and a warning for each fact in which they differ.
    """
    from agentx_replay.experiment.asked_facts import asked_facts  # a start does without

    told = await asyncio.gather(
        *(
            asked_facts(each, [page for page in pages if _owner(page.name, servers) is each])
            for each in servers
        )
    )
    found: dict[str, Any] = {}
    warnings = []
    for key in dict.fromkeys(key for each in told for key in each):
        values = [each.get(key) for each in told]
        if len({value for value in values if value is not None}) > 1:
            warnings.append(_difference(key, servers, values))
        else:
            found[key] = next(value for value in values if value is not None)
    pools = [each[_POOL] for each in told if _POOL in each]
    return found | ({_POOL: sum(pools)} if pools else {}), tuple(warnings)


async def replica_pages(
    urls: Sequence[str], servers: Sequence[EndpointSettings]
) -> tuple[MetricsPage, ...]:
    """Return the metrics pages to scrape: those at ``urls``, with none given each server's own,
    which servers at one host and port share.

    A page gets the key of the server that it belongs to, and no other. Raises as
    ``metrics_pages``, and for a page that is named twice: its counts would be added up.
    """
    refuse_twice("--metrics-url", [page_url(url) for url in urls])
    if not urls:
        by_place = {server_page(server).settings.url.place: server for server in servers}
        found = [await metrics_pages((), server) for server in by_place.values()]
    else:
        found = [await metrics_pages((url,), _owner(url, servers)) for url in urls]
    return tuple(page for pages in found for page in pages)


def _owner(url: str, servers: Sequence[EndpointSettings]) -> EndpointSettings:
    authority = page_url(url).authority
    return next((each for each in servers if each.url.authority == authority), servers[0])


async def check_lengths(
    calibration: Calibration, servers: Sequence[EndpointSettings], context_tokens: int | None
) -> None:
    """Count some random prompts on every server. Raises UsageError (exit code 3) where one counts
    another length than the first does.

    Nothing is asked where the calibration had to assume lengths.
    """
    if calibration.cost.assumed:
        return
    from agentx_replay.experiment.calibrating import drawn_probes  # a start does without

    rng = random.Random(time.time_ns())  # a cache must not know the prompts
    probes = drawn_probes(calibration, rng, Room(context_tokens, _LONGEST_TOKENS))[:_COMPARED]
    first, *others = await asyncio.gather(*(_counts(server, probes) for server in servers))
    for server, counts in zip(servers[1:], others, strict=True):
        for expected, found in zip(first, counts, strict=True):
            if found != expected:
                raise UsageError(
                    "replicas-disagree",
                    f"the same prompt is {_tokens(expected)} for {servers[0].url} and "
                    f"{_tokens(found)} for {server.url}, so they are no replicas of one server",
                    "give the URLs of servers with one model, tokenizer and chat template",
                    exit_code=_UNUSABLE,
                )


async def _counts(server: EndpointSettings, probes: Sequence[Probe]) -> list[Count]:
    counter = Counter(server)
    try:
        asked = ProbeMaker("x", ("x",), random.Random(0))
        ways = await counter.ways(asked.conversation([("user", 3)]), asked.text(3))
        return await counter.counts(probes, ways)
    except UncountedError:
        return [None] * len(probes)
    finally:
        await counter.close()


def _tokens(count: Count) -> str:
    return "not counted" if count is None else f"{count} tokens"
