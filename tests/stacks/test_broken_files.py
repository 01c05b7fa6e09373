"""Stack files as people break them: every mistake is named at once, in the file's own path, and nothing else is."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.problems import Problem
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.judge import RefusedError, judge, judge_file
from stacks.stack_file.shape import SECTIONS
from stacks.stack_file.yaml import Source, parse
from tandem.command import main

GOOD = {
    "aws:region": "us-east-1",
    "tandem:sharing": "{mode: timeslice, replicas: 2}",
    "tandem:gpu-nodes": "{instance-types: [g4dn.xlarge], desired: 1, max: 1}",
    "tandem:models": '[{name: "llama2:7b", context: 2048}, {name: "mistral:7b", context: 2048}]',
}
TINY = '{name: "qwen2.5:0.5b"}'
OWN = "weights-gib: 2, layers: 32, kv-heads: 8, head-dim: 64"


def stack(text: str = "", /, **changed: str | None) -> str:
    """A good stack file with these values changed (None: left out), and `text` after it."""
    keys = {"region": "aws:region"}
    values: dict[str, str | None] = {
        **GOOD,
        **{keys.get(key, "tandem:" + key.replace("_", "-")): value for key, value in changed.items()},
    }
    lines = [f"  {key}: {value}\n" for key, value in values.items() if value is not None]
    return "config:\n" + "".join(lines) + text


def models(*more: str) -> str:
    return f"[{', '.join(more)}]"


Expected = list[tuple[str, str]]
BROKEN: dict[str, tuple[str, Expected]] = {
    # The file as a file.
    "empty": ("", [("config", "is missing. Pulumi.dev.yaml shows every key")]),
    "only comments": ("# nothing\n# here\n", [("config", "is missing")]),
    "only a document mark": ("---\n", [("config", "is missing")]),
    "no config": ("secretsprovider: x\n", [("config", "is missing")]),
    "config of nothing": ("config:\n", [("config", "is missing")]),
    "config as a list": ("config: [a]\n", [("config", "must be a mapping (got a list)")]),
    "config as text": ("config: hello\n", [("config", "must be a mapping (got text)")]),
    "config misspelt": (stack().replace("config", "confg", 1), [("confg", "Did you mean config?")]),
    "a list at the top": ("- a\n- b\n", [("config", "is missing (got a list instead)")]),
    "a scalar at the top": ("hello\n", [("config", "is missing (got text instead)")]),
    "a number at the top": ("7\n", [("config", "is missing (got a number instead)")]),
    "nothing below config": (
        "config: {}\n",
        [("aws:region", "missing"), ("sharing", "missing"), ("models", "missing")],
    ),
    # Unknown keys, at every level. What a misspelt key was meant to say is neither missed nor judged.
    "unknown key at the top": (stack("stuff: 1\n"), [("stuff", "unknown key. Known: config, secretsprovider")]),
    "misspelt section": (
        stack("  tandem:shering: {mode: mps}\n", sharing=None),
        [("shering", "unknown key. Did you mean sharing?")],
    ),
    "misspelt models": (stack("  tandem:model: []\n", models=None), [("model", "Did you mean models?")]),
    "section without its project": (
        stack("  sharing: {mode: mps}\n", sharing=None),
        [("sharing", "needs the project's name before it, as `tandem:…`. Write `tandem:sharing`")],
    ),
    "unknown key without a project": (
        stack("  foo: 1\n"),
        [("foo", "Known: sharing, gpu-nodes, models, models-clients, proof")],
    ),
    "project in capitals": (stack("  Tandem:budget: {}\n"), [("Tandem:budget", "Did you mean tandem?")]),
    "path as a key": (
        stack("  tandem:sharing.mode: mps\n"),
        [("sharing.mode", "`pulumi config set --path` puts it under `tandem:sharing`")],
    ),
    "number as a key": (stack("  1: 2\n"), [("1", "needs the project's name before it")]),
    "number as a key in a section": (stack(sharing="{mode: mps, 1: 2}"), [("sharing.1", "unknown key. Known: mode")]),
    "unknown keys everywhere": (
        stack(
            "stuff: 1\n",
            sharing="{mode: mps, replica: 2}",
            gpu_nodes="{instance_types: [g5.xlarge]}",
            models=models('{name: "llama2:7b", contxt: 2048}', '{name: "mistral:7b"}'),
            cluster="{zone: 2, system-nodes: {counts: 1}}",
            budget="{usd: 1}",
        ),
        [
            ("stuff", "unknown key"),
            ("sharing.replica", "Did you mean replicas?"),
            ("gpu-nodes.instance_types", "Did you mean instance-types?"),
            ("models[0].contxt", "Did you mean context"),
            ("cluster.zone", "Did you mean zones?"),
            ("cluster.system-nodes.counts", "Did you mean count?"),
            ("budget.usd", "Known: max-usd-per-hour"),
        ],
    ),
    "misspelt types hide no others": (
        stack(gpu_nodes="{instance_type: [g6e.xlarge]}", models=models('{name: "qwen2.5:32b"}')),
        [("gpu-nodes.instance_type", "Did you mean instance-types?")],
    ),
    "misspelt name": (stack(models="[{nam: x}]"), [("models[0].nam", "unknown key. Did you mean name?")]),
    "look-alike in a key": (
        stack(sharing="{m\u043ede: mps}"),
        [("sharing.m\u043ede", "U+043E CYRILLIC SMALL LETTER O")],
    ),
    "no-break space in a key": (
        stack(sharing="{mode: timeslice, replicas\u00a0: 2}"),
        [("sharing.replicas\u00a0", "U+00A0 NO-BREAK SPACE. Did you mean replicas?")],
    ),
    "no-break space in a section": (
        stack("  tandem:sharing\u00a0: {mode: mps}\n", sharing=None),
        [("sharing\u00a0", "U+00A0 NO-BREAK SPACE. Did you mean sharing?")],
    ),
    # Doubled keys.
    "doubled region": (stack("  aws:region: eu-west-1\n"), [("aws:region", "is listed twice, again in line 6")]),
    "doubled config": (stack("config: {}\n"), [("config", "is listed twice, again in line 6. Keep one of the two")]),
    "doubled section": (
        stack("  tandem:models: []\n"),
        [("models", "is listed twice"), ("models", "at least 1 entry")],
    ),
    "doubled mode": (stack(sharing="{mode: mps, mode: timeslice}"), [("sharing.mode", "is listed twice")]),
    "doubled name in a list": (
        stack(models='[{name: "llama2:7b", name: "gemma2:27b"}]'),
        [("models[0].name", "is listed twice, again in line 5")],
    ),
    # Wrong types, of each kind of field.
    "region as a list": (
        stack(region="[a]"),
        [("aws:region", "must be text (got [a]). Write `aws:region: us-east-1`")],
    ),
    "region as a number": (stack(region="1"), [("aws:region", "must be text (got 1)")]),
    "sharing as text": (
        stack(sharing="timeslice"),
        [("sharing", "must be a mapping (got 'timeslice'). Write `tandem:")],
    ),
    "sharing as a list": (stack(sharing="[mps]"), [("sharing", "must be a mapping")]),
    "mode as a list": (stack(sharing="{mode: [mps]}"), [("sharing.mode", "unknown mode")]),
    "models as a mapping": (stack(models="{name: x}"), [("models", "must be a list (got a mapping)")]),
    "models as text": (
        stack(models='["llama2:7b", 7]'),
        [
            ("models[0]", "must be a mapping (got 'llama2:7b'). Write `{name:"),
            ("models[1]", "must be a mapping (got 7)"),
        ],
    ),
    "no models": (stack(models="[]"), [("models", "must have at least 1 entry (got [])")]),
    "too many models": (stack(models=models(*[TINY] * 65)), [("models", "at most 64 entries (got a list of 65)")]),
    "types as text": (
        stack(gpu_nodes="{instance-types: g4dn.xlarge}"),
        [("gpu-nodes.instance-types", "must be a list (got 'g4dn.xlarge'). Write `instance-types: [g4dn.xlarge]`")],
    ),
    "no types": (stack(gpu_nodes="{instance-types: []}"), [("gpu-nodes.instance-types", "at least 1 entry")]),
    "a number among types": (
        stack(gpu_nodes="{instance-types: [g4dn.xlarge, 5]}"),
        [("gpu-nodes.instance-types[1]", 'must be text (got 5). Put it in quotes: "5"')],
    ),
    "number as text": (
        stack(sharing='{mode: timeslice, replicas: "2"}'),
        [("sharing.replicas", "must be a whole number (got '2'). Write `replicas: 2` without quotes")],
    ),
    "text as a number": (stack(models="[{name: 7}]"), [("models[0].name", "must be text (got 7). Write a tag")]),
    "Kubernetes as a number": (
        stack(cluster="{kubernetes: 1.36}"),
        [("cluster.kubernetes", 'must be text (got 1.36). Write it in quotes: `kubernetes: "1.36"`')],
    ),
    "fractions": (
        stack(gpu_nodes="{desired: 1.0, max: 1.5}"),
        [("gpu-nodes.desired", "Write `desired: 1`."), ("gpu-nodes.max", "must be a whole number (got 1.5)")],
    ),
    "yes": (stack(cluster="{logs: yes}"), [("cluster.logs", "must be true or false (got 'yes'). Write `logs: true`")]),
    "off": (stack(cluster="{logs: off}"), [("cluster.logs", "Write `logs: false` without quotes")]),
    "one for true": (stack(cluster="{logs: 1}"), [("cluster.logs", "must be true or false (got 1)")]),
    "true for a number": (stack(cluster="{zones: true}"), [("cluster.zones", "must be a whole number (got true)")]),
    "mode on": (stack(sharing="{mode: on}"), [("sharing.mode", "unknown mode (got 'on')")]),
    "sexagesimal": (stack(sharing="{mode: mps, replicas: 1:30}"), [("sharing.replicas", "whole number (got '1:30')")]),
    "underscores": (
        stack(models='[{name: "llama2:7b", context: 10_000_000}]'),
        [("models[0].context", "must be at most 1,048,576 (got 10000000). Remove the key for the default, 4096")],
    ),
    "octal": (stack(cluster="{zones: 011}"), [("cluster.zones", "must be at most 6 (got 9)")]),
    "hexadecimal": (stack(cluster="{zones: 0x1F}"), [("cluster.zones", "must be at most 6 (got 31)")]),
    "full-width digit": (
        stack(sharing="{mode: mps, replicas: \uff12}"),
        [("sharing.replicas", "must be a whole number (got '\uff12'). It is written with U+FF12 FULLWIDTH DIGIT TWO")],
    ),
    "not a number": (stack(budget="{max-usd-per-hour: .nan}"), [("budget.max-usd-per-hour", "(got nan)")]),
    "infinite": (stack(budget="{max-usd-per-hour: .inf}"), [("budget.max-usd-per-hour", "must be a finite number")]),
    "minus infinite": (stack(budget="{max-usd-per-hour: -.inf}"), [("budget.max-usd-per-hour", "(got -inf)")]),
    "budget in words": (stack(budget="{max-usd-per-hour: cheap}"), [("budget.max-usd-per-hour", "must be a number")]),
    "free": (stack(budget="{max-usd-per-hour: 0}"), [("budget.max-usd-per-hour", "must be more than 0 (got 0)")]),
    "negative counts": (
        stack(gpu_nodes="{min: -1, desired: -2, max: -3}"),
        [
            ("gpu-nodes.min", "must be at least 0 (got -1). Remove the key for the default, 0"),
            ("gpu-nodes.desired", "must be at least 0 (got -2)"),
            ("gpu-nodes.max", "must be at least 1 (got -3)"),
        ],
    ),
    "huge number": (stack(sharing="{mode: mps, replicas: 1" + "0" * 390 + "}"), [("sharing.replicas", "at most 48")]),
    "number beyond Python": (
        stack(sharing="{mode: mps, replicas: 1" + "0" * 5000 + "}"),
        [("sharing.replicas", "must be a whole number (got '1000")],
    ),
    "date for a name": (
        stack(models="[{name: 2026-11-21}]"),
        [("models[0].name", "unknown model; Ollama reads it as 2026-11-21:latest (got '2026-11-21')")],
    ),
    "date for a number": (stack(cluster="{zones: 2026-11-21}"), [("cluster.zones", "must be a whole number")]),
    "null sections": (
        stack(region="~", sharing="null", models=""),
        [
            ("aws:region", "is missing. Write `aws:region: us-east-1`"),
            ("sharing", "is missing. Write `tandem:sharing: {mode: timeslice}`"),
            ("models", "is missing. Write `tandem:models: [{name:"),
        ],
    ),
    "no sharing for one pool of two": (
        stack(
            sharing=None,
            gpu_nodes="[{name: a, sharing: {mode: mps}}, {name: b}]",
            models=models('{name: "qwen2.5:0.5b", pool: a}', '{name: "qwen2.5:0.5b", pool: b}'),
        ),
        [("sharing", "is missing. Write `tandem:sharing: {mode: timeslice}`")],
    ),
    "null mode": (stack(sharing="{mode: ~}"), [("sharing.mode", "is missing. Write `mode: timeslice`")]),
    "null replicas": (
        stack(sharing="{mode: mps, replicas: }"),
        [("sharing.replicas", "must be a whole number (got nothing). Remove the key for the default, 2")],
    ),
    "null model": (stack(models="[~]"), [("models[0]", "must be a mapping (got nothing)")]),
    "secrets": (
        stack(region="{secure: AAAB}", budget="{max-usd-per-hour: {secure: AAAB}}", models="{secure: AAAB}"),
        [
            ("aws:region", "must be readable (got an encrypted value). Set it again without `--secret`"),
            ("budget.max-usd-per-hour", "got an encrypted value"),
            ("models", "got an encrypted value"),
        ],
    ),
    "secret section": (stack(budget="{secure: AAAB}"), [("budget", "got an encrypted value")]),
    "control characters": (stack(sharing='{mode: "\\e[31mred\\n"}'), [("sharing.mode", "(got '?[31mred?')")]),
    "long text": (stack(sharing=f"{{mode: {'x' * 500}}}"), [("sharing.mode", f"(got '{'x' * 60}…')")]),
    # Values that are not allowed.
    "no mode": (stack(sharing="{replicas: 2}"), [("sharing.mode", "is missing")]),
    "unknown mode": (stack(sharing="{mode: mpss}"), [("sharing.mode", "unknown mode (got 'mpss'). Did you mean mps?")]),
    "mode in capitals": (stack(sharing="{mode: TimeSlice}"), [("sharing.mode", "Did you mean timeslice?")]),
    "look-alike mode": (
        stack(sharing="{mode: tim\u0435slice}"),
        [("sharing.mode", "written with U+0435 CYRILLIC SMALL LETTER IE. Did you mean timeslice?")],
    ),
    "one replica": (
        stack(sharing="{mode: timeslice, replicas: 1}"),
        [("sharing.replicas", "must be at least 2 (got 1). For one pod per GPU write `mode: exclusive`.")],
    ),
    "one pod a slice said the wrong way": (
        stack(sharing="{mode: mig, replicas: 1}", gpu_nodes="{instance-types: [g7e.2xlarge]}"),
        [("sharing.replicas", "must be at least 2 (got 1). For one pod per slice leave `replicas` out.")],
    ),
    "slices on a card without MIG": (
        stack(sharing="{mode: mig}"),
        [("sharing.mode", "T4 has no MIG (got mig). The cheapest with it: g7e.2xlarge ($3.36 an hour on demand)")],
    ),
    "a layout of another card": (
        stack(sharing="{mode: mig, layout: all-1g.5gb}", gpu_nodes="{instance-types: [g7e.2xlarge]}"),
        [("sharing.layout", "a layout of A100-40GB, not of RTX-PRO-SERVER-6000 (got 'all-1g.5gb')")],
    ),
    "a layout that is no list": (
        stack(sharing="{mode: mig, layout: 7}", gpu_nodes="{instance-types: [g7e.2xlarge]}"),
        [("sharing.layout", "must be a list (got 7). Write `layout: all-1g.24gb`, or `layout: [{profile: 1g.24gb,")],
    ),
    "entries of a layout": (
        stack(
            sharing="{mode: mig, strategy: both, layout: [{profil: 1g.24gb}, 2, {profile: 7, count: 0}]}",
            gpu_nodes="{instance-types: [g7e.2xlarge]}",
        ),
        [
            ("sharing.strategy", "must be `single` or `mixed` (got 'both')"),
            ("sharing.layout[0].profil", "unknown key. Did you mean profile?"),
            ("sharing.layout[1]", "must be a mapping (got 2)"),
            ("sharing.layout[2].profile", "must be text (got 7). Write 1g.24gb, e.g."),
            ("sharing.layout[2].count", "must be at least 1 (got 0)"),
        ],
    ),
    "a layout that does nothing here may still not be anything": (
        stack(sharing="{mode: timeslice, layout: [{profile: 1g.24gb, count: none}]}"),
        [("sharing.layout[0].count", "must be a whole number (got 'none')")],
    ),
    "an unknown mode hides no number": (
        stack(sharing="{mode: mpss, replicas: 1}"),
        [("sharing.mode", "unknown mode"), ("sharing.replicas", "must be at least 2")],
    ),
    "unknown words": (
        stack(
            gpu_nodes="{provisioner: karpentre, capacity: Spot, replacement: delete_first}",
            cluster="{nat: one, support: paid}",
        ),
        [
            (
                "gpu-nodes.replacement",
                "must be `create-first` or `delete-first` (got 'delete_first'). Did you mean delete-first?",
            ),
            ("gpu-nodes.provisioner", "must be `node-group` or `karpenter` (got 'karpentre')"),
            ("gpu-nodes.capacity", "must be `spot` or `on-demand` (got 'Spot'). Did you mean spot?"),
            ("cluster.support", "must be `standard` or `extended`"),
            ("cluster.nat", "must be `none`, `single` or `per-zone`"),
        ],
    ),
    "everything about a model": (
        stack(models='[{name: "la ma", id: A.b, slots: 100, kv-type: q8, cache: disk, context: 1, batch: 8}]'),
        [
            ("models[0].name", "Write a tag as in `ollama pull`"),
            ("models[0].id", "Use lower-case letters, digits and dashes"),
            ("models[0].context", "must be at least 256 (got 1)"),
            ("models[0].slots", "must be at most 64 (got 100)"),
            ("models[0].kv-type", "must be `f16`, `q8_0` or `q4_0` (got 'q8'). Did you mean q8_0?"),
            ("models[0].cache", "must be `node` or `volume`"),
            ("models[0].batch", "must be at least 32 (got 8)"),
        ],
    ),
    "a batch that cuts the texts of an embedding model": (
        stack(models='[{name: "nomic-embed-text:latest", context: 2048, batch: 512}]'),
        [("models[0].batch", "an embedding model reads a text in one step, and 2048 tokens may come (got 512)")],
    ),
    "unknown models": (
        stack(models=models('{name: "lama2:7b"}', "{name: mistral7b}", "{name: gpt-5}")),
        [
            ("models[0].name", "unknown model (got 'lama2:7b'). Did you mean llama2:7b"),
            (
                "models[1].name",
                "unknown model; Ollama reads it as mistral7b:latest (got 'mistral7b'). Did you mean mistral:7b",
            ),
            ("models[2].name", "Or describe your own by weights-gib, layers, kv-heads, head-dim"),
        ],
    ),
    "half a model of one's own": (
        stack(models=models("{name: mine, layers: 3}", '{name: "llama2:7b", weights-gib: 2, head-dim: 64}')),
        [
            (
                "models[0]",
                "a model of your own is described by weights-gib, layers, kv-heads, head-dim (got layers). Add ",
            ),
            ("models[1]", "Add layers, kv-heads"),
        ],
    ),
    "impossible model of one's own": (
        stack(models="[{name: mine, weights-gib: 0, layers: 0, kv-heads: 1, head-dim: 9999}]"),
        [
            ("models[0].weights-gib", "must be more than 0"),
            ("models[0].layers", "must be at least 1"),
            ("models[0].head-dim", "must be at most 4,096"),
        ],
    ),
    "contradictory own models": (
        stack(
            models=models(
                f"{{name: a, {OWN}, swa-layers: 20, shared-kv-layers: 8, recurrent-layers: 5, swa-window: 512, "
                "recurrent-state-bytes: 9}",
                f"{{name: b, {OWN}, swa-layers: 2, recurrent-layers: 2, experts: 8, embedding-bytes: 3221225472}}",
                f"{{name: c, {OWN}, swa-head-dim: 64, swa-kv-heads: 1, experts-used: 9, experts: 8, encoder: 1}}",
                f"{{name: d, {OWN}, swa-layers: 2, swa-window: 4096, max-context: 2048, mla-rank: -1}}",
                f"{{name: e, {OWN}, swa-window: 512, recurrent-state-bytes: 4, experts-used: 2}}",
                '{name: "llama2:7b", swa-window: 512}',
            )
        ),
        [
            ("models[0].layers", "20 swa-layers and 8 shared-kv-layers and 5 recurrent-layers are more than 32 layers"),
            ("models[1].swa-layers", "has no meaning without `swa-window` (got 2). Add `swa-window`."),
            ("models[1].recurrent-layers", "has no meaning without `recurrent-state-bytes`"),
            ("models[1].experts", "has no meaning without `experts-used`"),
            ("models[1].embedding-bytes", "is more than the 2,147,483,648 bytes of `weights-gib` (got 3,221,225,472)"),
            ("models[2].encoder", "must be true or false (got 1). Write `encoder: true` or `encoder: false`"),
            ("models[3].mla-rank", "must be at least 0 (got -1)"),
            ("models[4].swa-window", "has no meaning without `swa-layers`"),
            ("models[4].recurrent-state-bytes", "has no meaning without `recurrent-layers`"),
            ("models[4].experts-used", "has no meaning without `experts`"),
            ("models[5]", "Add weights-gib, layers, kv-heads, head-dim"),
        ],
    ),
    "an own model whose window is longer than its context": (
        stack(
            models=models(
                f"{{name: d, {OWN}, swa-layers: 2, swa-window: 4096, max-context: 2048}}",
                f"{{name: c, {OWN}, swa-head-dim: 64, swa-kv-heads: 1, experts-used: 9, experts: 8}}",
                f"{{name: e, {OWN}, heads: 4}}",
            )
        ),
        [
            ("models[0].swa-window", "must be at most `max-context`, 2048 (got 4096). Write 2048, or less."),
            ("models[1].swa-head-dim", "has no meaning without `swa-layers`"),
            ("models[1].swa-kv-heads", "has no meaning without `swa-layers`"),
            ("models[1].experts-used", "must be at most `experts`, 8 (got 9)"),
            ("models[2].kv-heads", "must be at most `heads`, 4 (got 8)"),
        ],
    ),
    "same ids": (
        stack(models=models(TINY.replace("}", ", id: a}"), TINY.replace("}", ", id: a}"))),
        [("models[1].id", "must be different for each model (got a). Leave it out, or number it")],
    ),
    "admins that EKS would refuse": (
        stack(
            cluster="{admins: [anna, 'arn:aws:iam::111122223333:root', 'arn:aws-cn:iam::111122223333:role/ci', "
            "'arn:aws:sts::111122223333:assumed-role/ci/session', "
            "'arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_Admin_0123456789abcdef/anna', "
            "'arn:aws:iam::111122223333:role/AWSReservedSSO_Admin_0123456789abcdef', "
            "'arn:aws:iam::111122223333:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot', "
            "'arn:aws:iam::111122223333:group/admins', 'arn:aws:iam::111122223333:role/*', 7]}"
        ),
        [
            ("cluster.admins[9]", "must be text (got 7). Write `admins: [arn:aws:iam::111122223333:role/ci]`"),
            ("cluster.admins[0]", "is not the ARN of an IAM role or user (got anna). Write a role or user"),
            ("cluster.admins[1]", "is an AWS account, which EKS accepts and then ignores"),
            ("cluster.admins[2]", "is in another partition than us-east-1"),
            ("cluster.admins[3]", "Write `arn:aws:iam::111122223333:role/ci`, with the role's path if it has one."),
            (
                "cluster.admins[4]",
                "`aws iam get-role --role-name AWSReservedSSO_Admin_0123456789abcdef --query Role.Arn",
            ),
            ("cluster.admins[5]", "lacks the path that every IAM Identity Center role has"),
            ("cluster.admins[6]", "is a service-linked role, which EKS refuses"),
            ("cluster.admins[7]", "is not the ARN of an IAM role or user"),
            ("cluster.admins[8]", "is not the ARN of an IAM role or user"),
        ],
    ),
    "credentials in the stack file": (
        stack("  aws:accessKey: AKIAEXAMPLE\n  aws:secretKey: hunter2\n  aws:token: {secure: abc}\n"),
        [
            ("aws:accessKey", "is refused: the AWS CLI in the kubeconfig would not use it. Put it into a profile"),
            ("aws:secretKey", "is refused: the AWS CLI in the kubeconfig would not use it. Put it into a profile"),
            ("aws:token", "is refused: the AWS CLI in the kubeconfig would not use it. Put it into a profile"),
        ],
    ),
    "keys of the provider that are not passed on": (
        stack("  aws:assumeRole: {roleArn: x}\n  aws:skipMetadataApiCheck: true\n  aws:proifle: work\n"),
        [
            ("aws:assumeRole", "Write `aws:assumeRoles: [{roleArn: …}]`."),
            ("aws:skipMetadataApiCheck", "Remove it."),
            ("aws:proifle", "Did you mean aws:profile"),
        ],
    ),
    "values of the provider": (
        stack(
            "  aws:profile: ''\n  aws:assumeRoles: [{roleArn: ci, externalId: secret}]\n"
            "  aws:allowedAccountIds: [12, x]\n  aws:defaultTags: {team: ml}\n"
        ),
        [
            ("aws:profile", "Write a name that `aws configure list-profiles` prints."),
            ("aws:assumeRoles[0].roleArn", "Write `roleArn: arn:aws:iam::111122223333:role/ci`"),
            ("aws:assumeRoles[0].externalId", "The AWS CLI in the kubeconfig cannot send it"),
            ("aws:allowedAccountIds[1]", 'Write `aws:allowedAccountIds: ["111122223333"]`.'),
            ("aws:defaultTags.team", "unknown key"),
        ],
    ),
    "values of the provider that would steer the terminal of pulumi": (
        stack(
            '  aws:profile: "work\\x1b[2J"\n  aws:assumeRoles: [{roleArn: "arn:aws:iam::111122223333:role/ci", '
            'sessionName: "up\\x1b[2J", duration: "2h\\x07"}]\n'
        ),
        [
            ("aws:profile", "(got 'work?[2J'). Write a name that `aws configure list-profiles` prints."),
            ("aws:assumeRoles[0].sessionName", "(got 'up?[2J'). Write 2 to 64 letters, digits or +=,.@-_."),
            ("aws:assumeRoles[0].duration", "(got '2h?'). Write `duration: 2h`, for example."),
        ],
    ),
    "two roles in a row": (
        stack(
            "  aws:assumeRoles: [{roleArn: 'arn:aws:iam::111122223333:role/a'}, "
            "{roleArn: 'arn:aws:iam::111122223333:role/b'}]\n"
        ),
        [("aws:assumeRoles", "(got a list of 2). Keep one. Chain roles in a profile with `source_profile`")],
    ),
    "a fallback that nothing uses": (
        stack(gpu_nodes="{instance-types: [g4dn.xlarge], on-demand-fallback: true}"),
        [("gpu-nodes.on-demand-fallback", "has an effect only with `provisioner: karpenter` and `capacity: spot`")],
    ),
    "an admin twice": (
        stack(cluster="{admins: ['arn:aws:iam::111122223333:role/ci', 'arn:aws:iam::111122223333:role/ci']}"),
        [("cluster.admins[1]", "is listed twice")],
    ),
    "bad networks": (
        stack(cluster='{cidr: 10.0.0.0/8, public-access-cidrs: [1.2.3, 10.0.0.1/8, "", x/8]}'),
        [
            ("cluster.cidr", "must be an IPv4 network between /16 and /22 (got '10.0.0.0/8'). Write 10.0.0.0/16"),
            ("cluster.public-access-cidrs[0]", "must be a CIDR block, as in 203.0.113.7/32 (got '1.2.3')"),
            ("cluster.public-access-cidrs[1]", "has host bits set (got '10.0.0.1/8')"),
            ("cluster.public-access-cidrs[2]", "must be a CIDR block, as in 203.0.113.7/32 (got '')"),
            ("cluster.public-access-cidrs[3]", "does not appear to be an IPv4 or IPv6 network (got 'x/8')"),
        ],
    ),
    # EKS API reference, VpcConfigRequest (no IPv6 for a cluster of IPv4); EKS user guide, "Configure network access to
    # cluster API server endpoint" (no reserved addresses).
    "networks that EKS refuses": (
        stack(cluster='{nat: none, public-access-cidrs: [10.0.0.0/8, 192.168.7.7/32, 8.8.8.8, "2001:db8::/32"]}'),
        [
            (
                "cluster.public-access-cidrs[0]",
                "is a private range, which EKS refuses here (got '10.0.0.0/8'). Write your public address, for "
                "example 203.0.113.7/32",
            ),
            ("cluster.public-access-cidrs[1]", "is a private range, which EKS refuses here (got '192.168.7.7/32')"),
            ("cluster.public-access-cidrs[2]", "must be a CIDR block, as in 203.0.113.7/32 (got '8.8.8.8')"),
            ("cluster.public-access-cidrs[3]", "must be IPv4, since the cluster is; EKS refuses IPv6 here"),
        ],
    ),
    "no region": (stack(region=None), [("aws:region", "is missing. Write `aws:region: us-east-1`, for example")]),
    "bad region": (stack(region="virginia"), [("aws:region", "is not written as it must be (got 'virginia')")]),
    "bad tags": (
        stack(tags='{"aws:x": y, "a!": b, c: 1, d: "e!"}'),
        [
            ("tags.aws:x", "must not begin with aws:"),
            ("tags.a!", "must be 1 to 128 letters"),
            ("tags.c", 'must be text (got 1). Put it in quotes: "1"'),
            ("tags.d", "must be at most 256 letters"),
        ],
    ),
    "bad clients": (
        stack(
            models_clients='{namespaces: [Chat, "-a", "a.b"], pods: [], '
            'labels: {"a b": x, "/b": y, "A_/c": z, d: "e f", e: 1}}'
        ),
        [
            ("models-clients.labels.a b", "must be 1 to 63 letters, digits or ._-"),
            ("models-clients.labels./b", "must have a DNS name in front of the slash"),
            ("models-clients.labels.A_/c", "must have a DNS name in front of the slash"),
            ("models-clients.labels.d", "must be at most 63 letters, digits or ._-"),
            ("models-clients.labels.e", 'must be text (got 1). Put it in quotes: "1"'),
            ("models-clients.namespaces[0]", "must be 1 to 63 lower-case letters, digits or dashes"),
            (
                "models-clients.namespaces[1]",
                "no dash at either end (got '-a'). Write the name that `kubectl get namespaces` prints",
            ),
            ("models-clients.namespaces[2]", "must be 1 to 63 lower-case letters, digits or dashes"),
            ("models-clients.pods", "unknown key"),
        ],
    ),
    "clients that are no mapping": (
        stack(models_clients="[chat]"),
        [("models-clients", "(got [chat]). Write `tandem:models-clients: {namespaces: [chat]}`, for example")],
    ),
    "labels of clients that are no mapping": (
        stack(models_clients="{labels: [llm-client]}"),
        [("models-clients.labels", '(got [llm-client]). Write `labels: {llm-client: "yes"}`, for example')],
    ),
    "truth values as labels": (
        stack(models_clients="{labels: {llm-client: True, llm-user: false}}"),
        [
            # Pulumi passes JSON on: `True` in YAML is `true` there.
            ("models-clients.labels.llm-client", 'must be text (got true). Put it in quotes: "true"'),
            ("models-clients.labels.llm-user", 'must be text (got false). Put it in quotes: "false"'),
        ],
    ),
    "a namespace of clients twice": (
        stack(models_clients="{namespaces: [chat, batch, chat, -, -]}"),
        [
            ("models-clients.namespaces[2]", "is listed twice (got 'chat'). Keep one of the two"),
            ("models-clients.namespaces[3]", "must be 1 to 63"),
            ("models-clients.namespaces[4]", "must be 1 to 63"),
        ],
    ),
    "a pool without room for a node": (
        stack(gpu_nodes="{instance-types: [g4dn.xlarge], desired: 0, max: 0}"),
        [("gpu-nodes.max", "must be at least 1 (got 0). Write `max: 1`; `desired: 0` parks the pool.")],
    ),
    "tags of controllers": (
        stack(tags='{"karpenter.sh/nodepool": a, "kubernetes.io/cluster/b": owned, "kubernetes.io/role": fine}'),
        [
            ("tags.karpenter.sh/nodepool", "knows its own (got 'karpenter.sh/nodepool'). Write another."),
            ("tags.kubernetes.io/cluster/b", "is a tag by which EKS or Karpenter knows its own"),
        ],
    ),
    "fewer nodes of Karpenter's than models need": (
        stack(gpu_nodes="{provisioner: karpenter, max: 1}", models=models(TINY, TINY, TINY)),
        [
            (
                "models",
                "every model needs a share (got 3 models, 2 shares). "
                "Write `gpu-nodes.max: 2`; or `sharing.replicas: 3`",
            )
        ],
    ),
    "tags as a list": (stack(tags="[a]"), [("tags", "must be a mapping (got [a])")]),
    # Several pools.
    "no pools": (stack(gpu_nodes="[]"), [("gpu-nodes", "must have at least 1 entry (got [])")]),
    "too many pools": (
        stack(gpu_nodes=models(*[f"{{name: p{number}}}" for number in range(11)])),
        [("gpu-nodes", "must have at most 10 entries (got a list of 11). Leave some out")],
    ),
    "pools without a name": (
        stack(gpu_nodes="[{instance-types: [g4dn.extra]}, {max: 2}]"),
        [
            ("gpu-nodes[0].name", "is missing. Write `name: fast`, for example"),
            ("gpu-nodes[0].instance-types[0]", "unknown GPU instance type (got 'g4dn.extra')"),
            ("gpu-nodes[1].name", "is missing"),
            ("models[0].pool", "is missing, and there are several pools. Name the one that it runs on."),
            ("models[1].pool", "is missing, and there are several pools"),
        ],
    ),
    "a pool that is none": (
        stack(gpu_nodes="[7, {name: rest}]", models=models('{name: "llama2:7b", pool: fast}', TINY)),
        [
            ("gpu-nodes[0]", "must be a mapping (got 7). Write `{name: fast, instance-types: [g6.xlarge]}`"),
            ("models[1].pool", "Name the one that it runs on. Known: rest."),
        ],
    ),
    "names of pools": (
        stack(
            gpu_nodes="[{name: Fast}, {name: a_b}, {name: aaaaaaaaaaaaaaaaaaaaa}, {name: 7}, {name: rest}, {name: 1a}]",
            models='[{name: "llama2:7b", pool: rest}]',
        ),
        [
            ("gpu-nodes[0].name", "is not written as it must be (got 'Fast'). Write `name: fast`, for example: lower"),
            ("gpu-nodes[1].name", "(got 'a_b')"),
            ("gpu-nodes[2].name", "digits and dashes, 20 at most"),
            ("gpu-nodes[3].name", "must be text (got 7)"),
            ("gpu-nodes[5].name", "(got '1a')"),
        ],
    ),
    "a pool name twice": (
        stack(
            gpu_nodes="[{name: a}, {name: b}, {name: a, instance-types: [g4dn.extra]}]",
            models=models(*[TINY.replace("}", ", pool: a}")] * 3, TINY.replace("}", ", pool: c}")),
        ),
        [
            ("gpu-nodes[2].name", "must be different for each pool (got a). Give it a name of its own"),
            ("gpu-nodes[2].instance-types[0]", "unknown GPU instance type"),
            ("models[3].pool", "unknown pool (got 'c'). Known: a, b."),
        ],
    ),
    "a pool name twice, which leaves open where models run": (
        stack(
            gpu_nodes="[{name: a}, {name: a, sharing: {mode: mps, replicas: 4}}]",
            models=models(*['{name: "llama2:7b", pool: a}'] * 5),
        ),
        [("gpu-nodes[1].name", "must be different for each pool")],
    ),
    "models on unknown pools and on none": (
        stack(
            gpu_nodes="[{name: fast}, {name: rest}]",
            models=models(*(TINY.replace("}", f", pool: {pool}}}") for pool in ("fst", "rest", "REST")), TINY),
        ),
        [
            ("models[0].pool", "unknown pool (got 'fst'). Did you mean fast?"),
            ("models[2].pool", "unknown pool (got 'REST'). Did you mean rest?"),
            ("models[3].pool", "is missing, and there are several pools. Name the one that it runs on. Known: fast, r"),
        ],
    ),
    "a pool where there is no list": (
        stack(models='[{name: "llama2:7b", pool: fast}]'),
        [("models[0].pool", "unknown pool (got 'fast'). Known: gpu.")],
    ),
    "what only pools in a list have": (
        stack(gpu_nodes="{name: fast, sharing: {mode: mps}, nam: x}", models='[{name: "llama2:7b", pool: fast}]'),
        [
            ("gpu-nodes.name", "unknown key. Only pools in a list have names"),
            ("gpu-nodes.sharing", "unknown key. Only pools in a list have their own; here `tandem:sharing` is all"),
            ("gpu-nodes.nam", "unknown key. Known: provisioner"),
        ],
    ),
    "misspelt keys of pools": (
        stack(
            gpu_nodes="[{name: fast, instance_type: [g6e.xlarge]}, {nam: rest, sharing: {mod: mps}}]",
            models=models('{name: "qwen2.5:32b", pool: fast}', '{name: "llama2:7b", pol: rest}'),
        ),
        [
            ("gpu-nodes[0].instance_type", "Did you mean instance-types?"),
            ("gpu-nodes[1].nam", "Did you mean name?"),
            ("gpu-nodes[1].sharing.mod", "Did you mean mode?"),
            ("models[1].pol", "Did you mean pool?"),
        ],
    ),
    "sharing of pools": (
        stack(
            gpu_nodes="[{name: a, sharing: mps}, {name: b, sharing: {mode: mpss, replicas: 1}},"
            " {name: c, sharing: {replicas: 1}}, {name: d, sharing: {mode: mps, replica: 49}}]",
            models='[{name: "qwen2.5:32b", pool: a}]',
        ),
        [
            ("gpu-nodes[0].sharing", "must be a mapping (got 'mps'). Write `sharing: {mode: timeslice}`"),
            ("gpu-nodes[1].sharing.mode", "unknown mode (got 'mpss'). Did you mean mps?"),
            (
                "gpu-nodes[1].sharing.replicas",
                "must be at least 2 (got 1). For one pod per GPU write `mode: exclusive`",
            ),
            ("gpu-nodes[2].sharing.mode", "is missing. Write `mode: timeslice`"),
            ("gpu-nodes[2].sharing.replicas", "must be at least 2"),
            ("gpu-nodes[3].sharing.replica", "Did you mean replicas?"),
        ],
    ),
    "everything about a pool of several": (
        stack(
            gpu_nodes="[{name: a, capacity: Spot, provisioner: x, volume-gib: big, desired: 9}, {name: b, min: 2,"
            " instance-types: [g4dn.xlarge, g4dn.xlarge, g5.xlarge, m5.large]}, {name: c, min: -1}]",
            models='[{name: "llama2:7b", pool: a}]',
        ),
        [
            ("gpu-nodes[0].capacity", "must be `spot` or `on-demand` (got 'Spot')"),
            ("gpu-nodes[0].provisioner", "must be `node-group`"),
            ("gpu-nodes[0].volume-gib", "must be a whole number (got 'big'). Remove the key for the default, 100"),
            ("gpu-nodes[0].desired", "must be at most `max`, 1 (got 9)"),
            ("gpu-nodes[1].min", "must be at most `desired`, 1 (got 2)"),
            ("gpu-nodes[1].instance-types[1]", "is listed twice"),
            ("gpu-nodes[1].instance-types[3]", "must have a GPU (got m5.large)"),
            ("gpu-nodes[2].min", "must be at least 0"),
        ],
    ),
    "a mistake in one pool hides none in another": (
        stack(
            gpu_nodes="[{name: a, instance-types: 7, sharing: {mode: mps, replicas: 2}},"
            " {name: b, sharing: {mode: mps, replicas: 4}}]",
            models=models('{name: "qwen2.5:32b", pool: a}', '{name: "llama2:7b", pool: b}'),
        ),
        [
            ("gpu-nodes[0].instance-types", "must be a list (got 7)"),
            ("models[1]", "Write `gpu-nodes[1].sharing: {mode: mps, replicas: 2}`; or"),
        ],
    ),
    "misspelt pools": (
        stack("  tandem:gpu-node: [{name: fast}]\n", gpu_nodes=None, models='[{name: "llama2:7b", pool: fast}]'),
        [("gpu-node", "Did you mean gpu-nodes?")],
    ),
    "doubled key of a pool": (
        stack(gpu_nodes="[{name: a, max: 1, max: 2}]"),
        [("gpu-nodes[0].max", "is listed twice, again in line 4")],
    ),
    "secret names": (
        stack(gpu_nodes="[{name: a}, {name: {secure: AAAB}}]", models='[{name: "llama2:7b", pool: b}]'),
        [("gpu-nodes[1].name", "must be readable (got an encrypted value)")],
    ),
    # Values that do not go together.
    "min over desired over max": (
        stack(gpu_nodes="{min: 3, desired: 2, max: 1}"),
        [
            ("gpu-nodes.desired", "must be at most `max`, 1 (got 2). Write `max: 2` as well"),
            ("gpu-nodes.min", "must be at most `desired`, 2 (got 3)"),
        ],
    ),
    "parked with a minimum": (stack(gpu_nodes="{min: 1, desired: 0}"), [("gpu-nodes.min", "for a parked pool")]),
    "doubled type": (
        stack(gpu_nodes="{instance-types: [g4dn.xlarge, g4dn.xlarge]}"),
        [("gpu-nodes.instance-types[1]", "is listed twice (got 'g4dn.xlarge')")],
    ),
    "GPU of another vendor": (
        stack(gpu_nodes="{instance-types: [g4ad.xlarge]}"),
        [("gpu-nodes.instance-types[0]", "must have an NVIDIA GPU; g4ad.xlarge has AMD's RADEON-PRO-V520")],
    ),
    "mixed GPUs": (
        stack(gpu_nodes="{instance-types: [g4dn.xlarge, g5.xlarge]}"),
        [("gpu-nodes.instance-types[1]", "must have the same GPU as g4dn.xlarge (T4)")],
    ),
    "unknown type": (
        stack(gpu_nodes="{instance-types: [g4dn.extra]}"),
        [("gpu-nodes.instance-types[0]", "unknown GPU instance type (got 'g4dn.extra'). Did you mean g4dn.")],
    ),
    "type without a GPU": (
        stack(gpu_nodes="{instance-types: [t3.medium]}"),
        [("gpu-nodes.instance-types[0]", "must have a GPU (got t3.medium)")],
    ),
    "GPU on system nodes": (
        stack(cluster="{system-nodes: {instance-types: [g4dn.xlarge]}}"),
        [("cluster.system-nodes.instance-types[0]", "system nodes must have no GPU")],
    ),
    "more models than shares": (
        stack(models=models(TINY, TINY, TINY)),
        [("models", "every model needs a share (got 3 models, 2 shares)")],
    ),
    "two models on one exclusive GPU": (stack(sharing="{mode: exclusive}"), [("models", "every model needs a share")]),
    "model that cannot fit": (
        stack(models=models('{name: "qwen2.5:32b"}')),
        [("models[0]", "Write `gpu-nodes.instance-types: [g6")],
    ),
    "disk too small": (stack(gpu_nodes="{volume-gib: 50}"), [("gpu-nodes.volume-gib", "Write `volume-gib: 53`")]),
    "budget too small": (
        stack(budget="{max-usd-per-hour: 0.1}"),
        [("budget.max-usd-per-hour", "more than its budget (got 0.1)")],
    ),
    "budget too small, as text": (
        stack(budget='{max-usd-per-hour: "0.1"}'),
        [("budget.max-usd-per-hour", "more than its budget (got 0.1)")],
    ),
    "Kubernetes of the past": (
        stack(cluster='{kubernetes: "1.30"}'),
        [("cluster.kubernetes", "EKS ended all support for it on 2026-07-23")],
    ),
    # Mistakes in many places, some of which hide others.
    "a little of everything": (
        stack(
            region="us_east",
            sharing="{mode: mps, replicas: 1}",
            gpu_nodes="{instance-types: [g4dn.extra], min: 2}",
            models=models('{name: "lama2:7b"}', '{name: "mistral:7b", context: long}'),
            cluster="{kubernetes: 1.36}",
            budget="{max-usd-per-hour: 0.01}",
        ),
        [
            ("aws:region", "is not written"),
            ("sharing.replicas", "must be at least 2"),
            ("gpu-nodes.instance-types[0]", "unknown GPU instance type"),
            ("gpu-nodes.min", "must be at most `desired`, 1"),
            ("models[0].name", "unknown model"),
            ("models[1].context", "must be a whole number (got 'long')"),
            ("cluster.kubernetes", "must be text"),
        ],
    ),
    "alias of a broken part": (
        stack("  tandem:budget: &low {max-usd-per-hour: -1}\n  tandem:cluster: *low\n"),
        [("budget.max-usd-per-hour", "more than 0"), ("cluster.max-usd-per-hour", "unknown key")],
    ),
}

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "not YAML": ("@@@ :\n", "found a character that cannot begin a value (tab, @, ` or %) (line 1, column 1)"),
    "tabs": ("config:\n\taws:region: us-east-1\n", "(line 2, column 1)"),
    "unbalanced brackets": ("config: {a: [1, 2}\n", "did not find expected ',' or ']' (line 1, column 18)"),
    "unclosed quote": ('config: "abc\n', "unexpected end of stream"),
    "wrong escape": ('config: "\\q"\n', "unknown escape character"),
    "two documents": ("config: {}\n---\nconfig: {}\n", "it holds more than one document (line 2, column 1)"),
    "unknown alias": ("config: *nobody\n", "found undefined alias"),
    "list as a key": (stack("  [a]: b\n"), "a key is a list or a mapping (line 6, column 3)"),
    "merge of a number": (stack(sharing="{<<: 5}"), "expected a mapping"),
    "NUL": ("config:\0 x\n", "control characters are not allowed"),
    "binary": (bytes(range(256)), "is not UTF-8 text (byte 128)"),
    "Latin-1": (b"# caf\xe9\nconfig: {}\n", "is not UTF-8 text (byte 5). Save it as UTF-8."),
    "UTF-16": (stack().encode("utf-16"), "is not UTF-8 text (byte 0)"),
    "lone surrogate": ('config: "\\ud800"\n', "invalid Unicode character escape code"),
    "billion laughs": (LAUGHS, "more than 20,000 values (aliases count)"),
    "alias of itself": ("config: &a {b: *a}\n", "an alias in the file contains itself"),
    "100,000 lists": ("config: " + "[" * 100_000 + "]" * 100_000 + "\n", "is nested too deeply"),
    "100,000 open lists": ("config: " + "[" * 100_000, "is nested too deeply"),
    "50,000 mappings": ("{a: " * 50_000, "is nested too deeply"),
    "30,000 dashes": ("- " * 30_000 + "x\n", "is nested too deeply"),
    "a long list": (f"config: [{'1,' * 60_000}]\n", "more than 20,000 values"),
    "10 MB": ("#" * 10_000_000, "is larger than 256 KiB"),
    "a Python object": ("config: !!python/object/apply:os.abort []\n", "uses the tag !!python/object/apply:os.abort"),
    "a binary tag": (stack(models="!!binary aGVsbG8="), "uses the tag !!binary (line 5, column 18)"),
    "a set": (stack(models="!!set {a, b}"), "uses the tag !!set"),
    "a tag of one's own": (stack(sharing="!custom {mode: mps}"), "uses the tag !custom"),
    "a wrong tag": (stack(cluster="{logs: !!bool maybe}"), "uses the tag !!bool"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.broken.yaml"


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize("name", BROKEN)
def test_every_mistake_of_a_file_is_named_at_once_with_its_rule_and_fix_and_nothing_else(name: str, file: Path) -> None:
    text, expected = BROKEN[name]
    problems = judge_file(write(file, text)).problems
    missed = [each for each in expected if not any(p.path == each[0] and each[1] in str(p) for p in problems)]
    assert not missed, [str(problem) for problem in problems]
    assert sorted(p.path for p in problems) == sorted(path for path, _ in expected), [str(p) for p in problems]
    for problem in problems:
        assert problem.rule, problem
        assert problem.fix.endswith((".", "?")), problem
        assert len(str(problem)) < 500, problem


def every_path(line: str) -> list[str]:
    """The paths of a line: `models[0-1,3].name` is three."""
    path = line.removeprefix("  ").split(": ")[0]
    found = re.fullmatch(r"(.*)\[([\d,-]+)\](.*)", path)
    if not found:
        return [path]
    runs = [(int(run.split("-")[0]), int(run.split("-")[-1])) for run in found[2].split(",")]
    return [f"{found[1]}[{number}]{found[3]}" for first, last in runs for number in range(first, last + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_refused_file_ends_with_1_and_names_each_mistake(
    name: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, expected = BROKEN[name]
    assert main(["plan", str(write(file, text))]) == 1
    out, err = capsys.readouterr()
    heading, *lines = out.splitlines()
    found = re.fullmatch(r"Pulumi.broken.yaml has (\d+) mistakes?:", heading)
    assert found
    told = [path for line in lines[: int(found[1])] for path in every_path(line)]
    assert sorted(told) == sorted(path for path, _ in expected)
    assert not err
    assert "Traceback" not in out


@pytest.mark.parametrize("name", [*BROKEN][::8])
def test_a_refused_file_is_one_json_object_with_the_same_mistakes(
    name: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, expected = BROKEN[name]
    assert main(["plan", str(write(file, text)), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "refused"
    assert sorted(problem["path"] for problem in report["problems"]) == sorted(path for path, _ in expected)
    assert report["resources"] == []


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_yaml_ends_with_2_and_says_why(name: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, expected = UNREADABLE[name]
    assert main(["plan", str(write(file, content))]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert expected in err
    assert err.startswith("tandem: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", [*UNREADABLE][::4])
def test_what_is_no_yaml_is_one_json_object_too(name: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, expected = UNREADABLE[name]
    assert main(["plan", str(write(file, content)), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["mode"], report["stack"]) == ("refused", None, "broken")
    assert [expected in problem["rule"] for problem in report["problems"]] == [True]


def test_a_missing_file_ends_with_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file)]) == 2
    assert f"there is no file {file}" in capsys.readouterr().err


def test_a_folder_is_no_stack_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file.parent) + "/"]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_file_without_permission_ends_with_2(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", denied)
    assert main(["plan", str(write(file, stack()))]) == 2
    assert capsys.readouterr().err == "tandem: Pulumi.broken.yaml cannot be read: Permission denied.\n"


@pytest.mark.parametrize("call", [[], ["pln"], ["plan", "a", "b"], ["plan", "--jsn"]])
def test_a_wrong_call_ends_with_2(call: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(call)
    assert ended.value.code == 2
    assert "usage: tandem" in capsys.readouterr().err


@pytest.mark.parametrize("before", ["\ufeff", "---\n", "%YAML 1.1\n---\n", "# caf\u00e9\n"])
def test_a_good_file_may_begin_in_many_ways(before: str, file: Path) -> None:
    assert judge_file(write(file, before + stack())).problems == ()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("True", True),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        ("1_000", 1000),
        ("010", 8),
        ("0o17", 15),
        ("0x10", 16),
        ("2026-11-21", "2026-11-21"),
        ("~", None),
        (".5", 0.5),
        ("=", "="),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_values_are_read_as_pulumi_reads_them(written: str, value: object) -> None:
    sections = parse(f"config:\n  aws:region: {written}\n", "x", SECTIONS)
    assert sections.region == value
    assert type(sections.region) is type(value)


def test_aliases_and_merge_keys_are_read() -> None:
    text = stack(models="[&one {name: 'qwen2.5:0.5b', context: 512}, {<<: *one, context: 1024}]")
    models_read = parse(text, "x", SECTIONS).sections["models"]
    assert [model["context"] for model in models_read] == [512, 1024]


def test_values_of_other_projects_are_none_of_ours(file: Path) -> None:
    extra = "  aws:profile: me\n  kubernetes:context: x\n  other:token: {secure: AAAB}\nencryptionsalt: v1\n"
    assert judge_file(write(file, stack(extra))).problems == ()


def test_no_cost_is_told_while_a_mistake_stands(file: Path) -> None:
    reading = judge_file(write(file, stack(gpu_nodes="{max: 0}", budget="{max-usd-per-hour: 0.01}")))
    assert reading.assessment.cost is None
    assert [problem.path for problem in reading.problems] == ["gpu-nodes.max"]


GOOD_TEXT = stack(
    cluster='{kubernetes: "1.36", cidr: 10.0.0.0/16, system-nodes: {instance-types: [t3.medium], count: 1}}',
    budget="{max-usd-per-hour: 2}",
    tags="{team: blue}",
)
GOOD_TREE: dict[str, Any] = yaml.safe_load(GOOD_TEXT)
SEVERAL_TREE: dict[str, Any] = yaml.safe_load(
    stack(
        gpu_nodes="[{name: fast, desired: 1, sharing: {mode: mps, replicas: 2}}, {name: rest, min: 0, max: 2}]",
        models='[{name: "llama2:7b", pool: fast}, {name: "mistral:7b", pool: rest}]',
    )
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["llama2:7b", "mps", "g5.xlarge", "0.5", "1.36", "true", "secure"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into the tree but the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [place for key, value in items for place in ((*above, key), *places(value, (*above, key)))]


def judged(file: Path) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        judge_file(file).plan()
    except UnreadableError:
        return
    except RefusedError as refusal:
        problems = refusal.judged.problems
        text = str(refusal)
    if problems:
        found = re.match(rf"{re.escape(file.name)} has (\d+) mistake", text)
        assert found
        assert 1 <= int(found[1]) <= len(problems)
        assert all(problem.rule for problem in problems)


@pytest.mark.slow
@settings(max_examples=120)
@given(data=st.data())
def test_no_changed_tree_ends_in_a_traceback(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = copy.deepcopy(data.draw(st.sampled_from([GOOD_TREE, SEVERAL_TREE])))
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(places(tree)))
        parent = tree
        for part in above:
            parent = parent[part]
        change = data.draw(st.sampled_from(["delete", "replace", "add"]))
        if change == "delete" and len(tree["config"]) > 1:
            del parent[last]
        elif change == "add" and isinstance(parent, dict):
            parent[data.draw(SCALARS.filter(lambda key: key == key))] = data.draw(VALUES)
        else:
            parent[last] = data.draw(VALUES)
        if not isinstance(tree.get("config"), dict):
            break
    file = tmp_path_factory.getbasetemp() / "Pulumi.changed.yaml"
    file.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8", errors="replace")
    judged(file)


@settings(max_examples=150)
@given(at=st.integers(0, len(GOOD_TEXT)), cut=st.integers(0, 30), put=st.text(max_size=8))
def test_no_changed_text_ends_in_a_traceback(
    at: int, cut: int, put: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "Pulumi.text.yaml"
    file.write_text(GOOD_TEXT[:at] + put + GOOD_TEXT[at + cut :], encoding="utf-8", errors="replace")
    judged(file)


@settings(max_examples=60)
@given(content=st.binary(max_size=60) | st.text(alphabet="[]{}:-&*!|>'\"%@`#,? \n\tab1<=", max_size=60))
def test_no_bytes_end_in_a_traceback(content: bytes | str, tmp_path_factory: pytest.TempPathFactory) -> None:
    judged(write(tmp_path_factory.getbasetemp() / "Pulumi.bytes.yaml", content))


@pytest.mark.slow
@settings(max_examples=80)
@given(sections=st.dictionaries(st.sampled_from(SECTIONS), VALUES), region=VALUES)
def test_no_values_of_pulumi_end_in_a_traceback(sections: dict[str, Any], region: object) -> None:
    reading = judge(Source(sections, {"aws:region": region}), "Pulumi.x.yaml")
    assert all(str(problem) for problem in reading.problems)
