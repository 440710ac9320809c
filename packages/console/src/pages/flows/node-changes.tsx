import { type ReactNode, useState } from "react";
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { NodeAspect, NodeChange, type NodeDiff, type Revision, RevisionsService } from "@flowgate/client";
import { Link } from "wouter";
import { useAction } from "../../components/action.ts";
import { Problem } from "../../components/notice.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/flows.ts";

type Change = { readonly revision: Revision; readonly node: NodeDiff };

type Search = {
  readonly changes: readonly Change[];
  readonly searched: number;
  /** Undefined: from the newest revision on. */
  readonly pageToken: string | undefined;
  readonly isComplete: boolean;
};

/** Each revision is a difference that the service computes: so many for one request of a person. */
const pageSize = 15;

const nothing: Search = { changes: [], searched: 0, pageToken: undefined, isComplete: false };

export function NodeChanges({ id }: { readonly id: string }): ReactNode {
  const transport = useTransport();
  const [search, setSearch] = useState(nothing);
  const { isBusy, error, run } = useAction();
  const go = (): Promise<void> => run(async () => setSearch(await lookBack(transport, id, search)));
  const { changes, searched, isComplete } = search;
  const credentials = new Set(
    changes.flatMap(({ node }) => [...(node.credentials?.added ?? []), ...(node.credentials?.changed ?? [])]),
  );
  return (
    <section>
      <h3>Last changes</h3>
      {searched === 0 ? null : (
        <output className="muted">
          {texts.searched(searched)} {changes.length === 0 ? "None of them changed this node." : ""}
        </output>
      )}
      <ol className="flows-messages">
        {changes.map(({ revision, node }) => (
          <li key={revision.rev}>
            <strong>{visibleText(revision.user || "someone who did not sign in")}</strong> {summaryOf(node)}{" "}
            <Time at={revision.createTime} />
            {revision.message === "" ? null : <div>{visibleText(revision.message)}</div>}
            <Link href={`/history/${encodeURIComponent(revision.rev)}`}>Difference</Link>
          </li>
        ))}
      </ol>
      {credentials.size === 0 ? null : (
        <p>
          {"Credentials"}: {[...credentials].map(visibleText).join(", ")}.{" "}
          <span className="muted">Names that the revisions below have changed. Their values are never shown.</span>
        </p>
      )}
      {error === undefined ? null : <Problem error={error} />}
      {isComplete ? null : (
        <button type="button" aria-disabled={isBusy} onClick={() => (isBusy ? undefined : void go())}>
          {searched === 0 ? "Who changed this node?" : "Look further back"}
        </button>
      )}
    </section>
  );
}

/** Ends where the node was added, and otherwise after a page of revisions. */
async function lookBack(transport: Transport, id: string, { changes, searched, pageToken }: Search): Promise<Search> {
  const client = createClient(RevisionsService, transport);
  const page = await client.listRevisions({ pageSize, pageToken: pageToken ?? "" });
  const found = [...changes];
  for (const [index, revision] of page.revisions.entries()) {
    const node = await findNode(client, revision, id);
    if (node !== undefined) {
      found.push({ revision, node });
      if (node.change === NodeChange.ADDED) {
        return { changes: found, searched: searched + index + 1, pageToken: undefined, isComplete: true };
      }
    }
  }
  return {
    changes: found,
    searched: searched + page.revisions.length,
    pageToken: page.nextPageToken,
    isComplete: page.nextPageToken === "",
  };
}

async function findNode(
  client: Client<typeof RevisionsService>,
  { rev }: Revision,
  id: string,
): Promise<NodeDiff | undefined> {
  const { diff } = await client.diffRevision({ rev });
  return diff?.containers.flatMap(({ nodes }) => nodes).find((node) => node.id === id);
}

function summaryOf({ change, aspects }: NodeDiff): string {
  const verb = { [NodeChange.ADDED]: "added it", [NodeChange.REMOVED]: "removed it" }[change as number];
  return verb ?? `changed ${aspects.map((aspect) => aspectNames[aspect as number] ?? "it").join(", ")}`;
}

const aspectNames: Readonly<Record<number, string>> = {
  [NodeAspect.POSITION]: "its position",
  [NodeAspect.ORDER]: "its place in the order",
  [NodeAspect.CONTAINER]: "its tab",
  [NodeAspect.GROUP]: "its group",
  [NodeAspect.WIRES]: "its wires",
  [NodeAspect.PROPERTIES]: "its properties",
  [NodeAspect.CREDENTIALS]: "its credentials",
};
