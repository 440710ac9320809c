import type { ReactNode } from "react";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { type Proposal, ProposalsService, ProposalState } from "@flowgate/client";
import { Link, useRoute } from "wouter";
import { describeCaller } from "../../components/describe.ts";
import { SelectFilter, useFilters } from "../../components/filters.tsx";
import { Page, Result } from "../../components/page.tsx";
import { byPage, type Column, LoadMore, Table } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/proposals.ts";
import { ProposalPage, StateSign } from "./proposal.tsx";
import { describeChanges, stateOf, states } from "./view.ts";
import "./proposals.css";

export function ProposalsPage(): ReactNode {
  const [, parameters] = useRoute("/proposals/:id");
  return parameters === null ? <List /> : <ProposalPage key={parameters.id} id={parameters.id} />;
}

const columns: readonly Column<Proposal>[] = [
  { title: texts.state, cell: ({ state }) => <StateSign state={state} /> },
  {
    title: texts.message,
    cell: ({ id, message }) => (
      <Link href={`/proposals/${encodeURIComponent(id)}`}>{visibleText(message) || texts.noMessage}</Link>
    ),
  },
  { title: texts.by, cell: (proposal) => visibleText(describeCaller(proposal)) },
  { title: texts.changes, cell: (proposal) => describeChanges(proposal) },
  { title: texts.proposed, cell: ({ createTime }) => <Time at={createTime} /> },
  {
    title: texts.expires,
    cell: ({ state, expireTime }) => (state === ProposalState.OPEN ? <Time at={expireTime} /> : null),
  },
];

function List(): ReactNode {
  const [{ state }, setFilters] = useFilters(["state"]);
  const list = useInfiniteQuery(
    ProposalsService.method.listProposals,
    { state: stateOf(state), pageToken: "" },
    byPage,
  );
  return (
    <Page title={appTexts.pages.proposals}>
      <div className="filters">
        <SelectFilter
          label={texts.state}
          value={state}
          all="Open"
          options={[
            ...states
              .filter(({ name }) => name !== "open")
              .map(({ name }) => ({ value: name, label: texts.states[name] })),
            { value: "any", label: "Any state" },
          ]}
          onChange={(value) => setFilters({ state: value })}
        />
      </div>
      <Result of={list}>
        {({ pages }) => (
          <>
            <Table
              label="Proposals"
              columns={columns}
              rows={pages.flatMap(({ proposals }) => proposals)}
              keyOf={({ id }) => id}
              empty="There are no such proposals."
            />
            <LoadMore of={list} />
          </>
        )}
      </Result>
    </Page>
  );
}
