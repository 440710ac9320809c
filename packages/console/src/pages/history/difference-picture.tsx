import { type ReactNode, useMemo } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { type FlowsDiff, FlowsService, type Node, nodeToJson } from "@flowgate/client";
import { Result } from "../../components/page.tsx";
import { FlowDiffView } from "../../flow-view/flow-diff-view.tsx";
import { parseFlowNodes } from "../../flow-view/flow-nodes.ts";

export function DifferencePicture({
  rev,
  base,
  diff,
}: {
  readonly rev: string;
  readonly base: string;
  readonly diff: FlowsDiff;
}): ReactNode {
  const before = useQuery(FlowsService.method.getFlows, { rev: base }, { enabled: base !== "" });
  const after = useQuery(FlowsService.method.getFlows, { rev });
  return (
    <Result of={after}>
      {({ flows }) =>
        base === "" ? (
          <Picture before={noNodes} after={flows} diff={diff} />
        ) : (
          <Result of={before}>{(old) => <Picture before={old.flows} after={flows} diff={diff} />}</Result>
        )
      }
    </Result>
  );
}

const noNodes: readonly Node[] = [];

function Picture({
  before,
  after,
  diff,
}: {
  readonly before: readonly Node[];
  readonly after: readonly Node[];
  readonly diff: FlowsDiff;
}): ReactNode {
  const old = useMemo(() => parseFlowNodes(before.map(nodeToJson)), [before]);
  const current = useMemo(() => parseFlowNodes(after.map(nodeToJson)), [after]);
  return <FlowDiffView before={old} after={current} diff={diff} />;
}
