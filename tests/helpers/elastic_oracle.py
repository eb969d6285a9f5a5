"""What an elastic training must compute: runs of a plain `DiLoCo` with a fixed number of ranks, one after the other.

Each run begins with what the members had at the end of the one before. Their residuals are converted here, in numpy.
"""

from __future__ import annotations

import copy
from itertools import groupby

import numpy as np
import torch
from tests.helpers.elastic_members import EVERY, build, inner_step

from bitlane.compress.codecs.groups import Groups, shard_groups
from bitlane.compress.local.diloco import DiLoCo


def expected(run_threads, rounds, compressor, seed=7, left=(), build_seed=0, **settings):
    """Return the global parameters after each round, by its step.

    Parameters
    ----------
    run_threads : callable
        The fixture `threads`.
    rounds : dict of int to tuple of str
        The members of each round.
    left : collection of str
        Members that hand their residuals to the next one in order.
    """
    states, world, found = {}, None, {}
    steps = {step: step - EVERY for step in rounds}
    for members, group in groupby(rounds.items(), lambda item: item[1]):
        due = [step for step, _ in group]
        states = moved(states, members, left)

        def work(transport, members=members, due=due, states=states, world=world):
            name, results = members[transport.rank], {}
            model = build(build_seed)
            with DiLoCo(model, None, compressor, EVERY, process_group=transport, **settings) as diloco:
                if world is not None:
                    restore(diloco, model, states[name], world, steps[due[0]], transport)
                for step in range(steps[due[0]] + 1, due[-1] + 1):
                    inner_step(model, seed, name, step)
                    diloco.step()
                    if step in due:
                        results[step] = diloco._fragments[0].vector.clone()
                return results, diloco.state_dict()

        outcomes = run_threads(len(members), work)
        found |= outcomes[0][0]
        states = {name: state for name, (_, state) in zip(members, outcomes, strict=True)}
        world = states[members[0]]["fragments"][0]["global"]
    return found


def restore(diloco, model, state, world, step, transport):
    (fragment,) = state["fragments"]
    start = world if fragment["start"] is None else fragment["start"]
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(start.clone(), model.parameters())
    own = diloco.state_dict()
    state = {**state, **{name: own[name] for name in ("rank", "ranks", "settings", "shapes", "model")}, "step": step}
    state["fragments"] = [{**each, "average": {**each["average"]}} for each in state["fragments"]]
    for each in state["fragments"]:
        each["average"] |= {"rank": transport.rank, "ranks": transport.size}
        owned = each["average"]["reducer"].get("owned_residual")
        if owned is not None:
            groups = Groups.of(len(each["average"]["reducer"]["residual"]))
            shard = shard_groups(groups, transport.size)[transport.rank]
            each["average"]["reducer"]["owned_residual"] = torch.zeros(shard.end - shard.begin)
    diloco.load_state_dict(state)


def moved(states, members, left):
    """Return the states of these members: own residuals times new by old number, zeros for those that join."""
    if not states:
        return {}
    old = sorted(states)
    residuals = {name: combined([states[each] for each in old], number) for number, name in enumerate(old)}
    shares = {name: np.float32(len(members) / len(old)) * residuals[name] for name in old if name in members}
    for name in old:
        if name not in members and name in left:
            heir = next((each for each in members if each > name), members[0])
            before = shares.get(heir, np.zeros_like(residuals[name]))
            shares[heir] = before + residuals[name] / np.float32(len(old)) * np.float32(len(members))
    result = {}
    for name in members:
        result[name] = copy.deepcopy(states.get(name, states[old[0]]))
        if name not in states:
            result[name]["fragments"][0]["start"] = None
        reducer = result[name]["fragments"][0]["average"]["reducer"]
        if "residual" in reducer:
            reducer["residual"] = torch.from_numpy(shares.get(name, np.zeros_like(residuals[old[0]])))
    return result


def combined(states, rank):
    """Return what a rank has not sent, in units of its vector: of the averages that it encoded once for each rank."""
    reducers = [each["fragments"][0]["average"]["reducer"] for each in states]
    if "residual" not in reducers[rank]:
        return np.zeros(0, np.float32)
    total = reducers[rank]["residual"].numpy().copy()
    begin = sum(len(each["owned_residual"]) for each in reducers[:rank] if "owned_residual" in each)
    owned = reducers[rank].get("owned_residual", torch.zeros(0)).numpy()
    total[begin : begin + len(owned)] += owned * np.float32(len(states))
    return total
