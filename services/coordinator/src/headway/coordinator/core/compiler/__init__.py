"""The compiler: a workflow's YAML in, a plan or a list of faults out.

`compile_workflow` finds everything that is wrong in one go, each with its place in the file and a remedy. The steps, a
module each: YAML to a tree that keeps places (`yaml_tree`), entries by the tables of the language (`language`,
`fields`), nodes and edges (`nodes`, `edges`), texts to templates (`template_parser`), the graph (`graph`), what surely
ran before what (`certainty`), what expressions may name (`scope`), and what is known of values (`types`, `shapes`).
`hold_together` holds workflows against those that their subflow nodes run, `compare` tells two versions apart. This is
the only room that knows YAML. It does no I/O: the text is given.
"""

from headway.coordinator.core.compiler.changes import Changes, compare
from headway.coordinator.core.compiler.compile import CompileResult, compile_workflow, faces, hold_together
from headway.coordinator.core.compiler.faults import Code, Fault

__all__ = ["Changes", "Code", "CompileResult", "Fault", "compare", "compile_workflow", "faces", "hold_together"]
