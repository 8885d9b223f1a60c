"""A training's settings as options, for every command that takes them; the letters are the
paper's.
"""

from typing import Annotated

import typer

Rounds = Annotated[int | None, typer.Option(help="Rounds of training (T).  [default: 40]")]
Penalty = Annotated[
    float | None, typer.Option(help="How strongly servers pull together (beta).  [default: 0.1]")
]
Regularization = Annotated[
    float | None, typer.Option(help="Keeps the model small (a).  [default: 0.01]")
]
ObjectiveBound = Annotated[
    float | None, typer.Option(help="Bound of the objective's noise (R); 0: none.  [default: 1]")
]
ObjectiveNoise = Annotated[
    str | None,
    typer.Option(
        help="truncated_gaussian, uniform_box, uniform_ball or none.  [default: truncated_gaussian]"
    ),
]
NoiseScale = Annotated[
    float | None, typer.Option(help="Noise on what servers send (V); 0: none.  [default: 0.3]")
]
NoiseDecay = Annotated[
    float | None, typer.Option(help="How that noise fades (rho), between 0 and 1.  [default: 0.95]")
]
Jobs = Annotated[int, typer.Option(min=0, help="Processes; 0: one per core.")]
Diagnostics = Annotated[bool, typer.Option("--diagnostics", help="Show unprotected figures too.")]
