"""``gpufleet cuda``: whether an image's CUDA runs with a driver on a GPU; ``gpufleet.cuda`` knows."""

import click

from gpufleet.cli.parameters import OneOf


@click.command(name="cuda")
@click.option(
    "--image",
    required=True,
    metavar="REF|PATH",
    help="An OCI layout, an archive of docker save or skopeo, the JSON of docker inspect, or a name.",
)
@click.option("--driver", required=True, metavar="VERSION", help="The node's driver: 550.54.15.")
@click.option("--gpu", required=True, metavar="MODEL", help="A100, or a value of nvidia.com/gpu.product.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable that the pod or the image sets.")
@click.option("--brand", metavar="BRAND", help="The card's Product Brand in nvidia-smi -q, if it matters.")
@click.option(
    "--runtime",
    type=OneOf(["legacy", "cdi"]),
    help="The mode of the node's container runtime.  [default: what is true in both]",
)
@click.option("--tag", metavar="NAME", help="Which image, where a file has several.")
@click.option("--platform", default="linux/amd64", show_default=True, help="Of an image for several.")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
def command(
    image: str,
    driver: str,
    gpu: str,
    env: tuple[str, ...],
    brand: str | None,
    runtime: str | None,
    tag: str | None,
    platform: str,
    output: str,
) -> int:
    """Say whether an image's CUDA runs with a driver on a GPU, and what would help if not.

    Reads files only, and asks no registry: of an image that is only named, what its name does not tell is
    unknown.

    Ends with code 0 if it runs, 1 if it does not, 4 if that is not known.
    """
    from gpufleet.advise.cuda.image_files import find_image, read_variables
    from gpufleet.cli.cuda_output import code, show
    from gpufleet.cuda.judging import judge
    from gpufleet.cuda.node import read_node
    from gpufleet.cuda.requirement import Runtime

    facts = find_image(image, tag=tag, platform=platform).run_with(read_variables(env, "--env"))
    node = read_node(driver, gpu, brand)
    judgement = judge(facts, node, None if runtime is None else Runtime(runtime))
    show(judgement, as_json=output == "json")
    return code(judgement.answer)
