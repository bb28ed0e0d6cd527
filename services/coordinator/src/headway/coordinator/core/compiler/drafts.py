"""Nodes as far as they stand by themselves: read from the source, and not yet part of a plan."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headway.coordinator.core.compiler.template_parser import Site
from headway.coordinator.core.compiler.yaml_tree import YamlList
from headway.coordinator.core.plan import Expression, Node, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node that another names, and where."""

    node: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDraft:
    """A case of a switch whose edge has no number yet. `sites`: the expressions in it."""

    when: Expression
    to: Target
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraft:
    """A node as far as it stands by itself.

    Attributes:
        node: the node of the plan, without the edges of a switch.
        place: of its id.
        places: where the values of its keys stand.
        sites: the expressions in it, those of its cases left out.
        cases, default: switch; no default: nowhere.
        is_whole: no fault in it hides what it is or where it leads.
    """

    node: Node
    place: Place
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    sites: tuple[Site, ...] = ()
    cases: tuple[CaseDraft, ...] = ()
    default: Target | None = None
    is_whole: bool = True
    body: "BodyDraft | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyDraft:
    """The body of a map or repeat, as it stands.

    Attributes:
        nodes, edges: as a workflow has them.
        single: it is one node.
        result: the expressions in `output` and `until`, evaluated where the body ends.
        repeats: the expressions in `while`, evaluated before it begins.
        has_lost_edges: there are edges, but they cannot be read.
    """

    nodes: "dict[str, NodeDraft]"
    edges: YamlList | None
    single: bool
    result: tuple[Site, ...]
    repeats: tuple[Site, ...]
    has_lost_edges: bool = False


def with_bodies(drafts: Mapping[str, NodeDraft]) -> Iterator[NodeDraft]:
    """Goes through nodes, and those in their bodies at any depth."""
    for draft in drafts.values():
        yield draft
        if draft.body is not None:
            yield from with_bodies(draft.body.nodes)
