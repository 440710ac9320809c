"""Replaces the beginning of the URLs that "http request" nodes call, in all flows at once.

    python move_urls.py http://old.example http://new.example            # prints what would change
    python move_urls.py http://old.example http://new.example --deploy

If the service requires a token, set the environment variable TOKEN.
"""

import argparse
import os
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "gen"))
from flowgate.v1 import flows_pb2, flows_pb2_grpc  # noqa: E402

TYPE = flows_pb2.DEPLOYMENT_TYPE_NODES


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--deploy", action="store_true")
    parser.add_argument("--server", default="127.0.0.1:8080", help="host and port")
    return parser.parse_args()


def move_urls(nodes, old, new):
    """Changes the nodes, and returns how many."""
    found = [n for n in nodes if n.type == "http request" and n.properties["url"].startswith(old)]
    for node in found:
        node.properties["url"] = new + node.properties["url"].removeprefix(old)
    return len(found)


def deploy(flows, nodes, rev, message, metadata):
    """Deploys on top of `rev`. Changes that others have deployed since are merged."""
    response = flows.SetFlows(
        flows_pb2.SetFlowsRequest(
            flows=nodes,
            rev=rev,
            merge=True,
            deployment_type=TYPE,
            message=message,
            wait=5,
            on_failure=flows_pb2.ON_FAILURE_UNDO,
        ),
        metadata=metadata,
    )
    if response.outcome != flows_pb2.DEPLOYMENT_OUTCOME_RUNNING:
        sys.exit(f"the flows do not run: {flows_pb2.DeploymentOutcome.Name(response.outcome)}")
    print(f"revision {response.rev} runs")


def main():
    arguments = parse_arguments()
    token = os.environ.get("TOKEN")
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(arguments.server) as channel:
        flows = flows_pb2_grpc.FlowsServiceStub(channel)
        active = flows.GetFlows(flows_pb2.GetFlowsRequest(), metadata=metadata)
        if move_urls(active.flows, arguments.old, arguments.new) == 0:
            sys.exit(f"no node calls {arguments.old}")
        if arguments.deploy:
            message = f"{arguments.old} is now {arguments.new}"
            deploy(flows, active.flows, active.rev, message, metadata)
        else:
            request = flows_pb2.PlanFlowsRequest(flows=active.flows, deployment_type=TYPE)
            print(flows.PlanFlows(request, metadata=metadata).text)


try:
    main()
except grpc.RpcError as error:
    sys.exit(f"{error.code().name}: {error.details()}")
