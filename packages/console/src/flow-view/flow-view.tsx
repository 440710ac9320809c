import { type ReactNode, useMemo } from "react";
import { drawContainer } from "./drawing.ts";
import { FlowCanvas } from "./flow-canvas.tsx";
import type { FlowNodes } from "./flow-nodes.ts";
import { measureText } from "./measure-text.ts";
import { Outline } from "./outline.tsx";
import { noOverlays, type Overlays } from "./overlays.ts";

/** A tab or subflow as Node-RED draws it, with what is live on its nodes, and its nodes as a list. */
export function FlowView({
  nodes,
  container,
  overlays = noOverlays,
  onSelect,
}: {
  readonly nodes: FlowNodes;
  readonly container: string;
  /** A new object for each change. */
  readonly overlays?: Overlays;
  readonly onSelect: (id: string | undefined) => void;
}): ReactNode {
  const drawing = useMemo(() => drawContainer(nodes, container, measureText()), [nodes, container]);
  return (
    <div className="flow-view">
      <FlowCanvas
        drawing={drawing}
        name={nodes.container(container)?.name ?? container}
        overlays={overlays}
        focus={overlays.selected}
        onSelect={onSelect}
      />
      <Outline nodes={nodes} container={container} overlays={overlays} onSelect={onSelect} />
    </div>
  );
}
