import { type KeyboardEvent, type ReactNode, useState } from "react";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { type Revision, RevisionsService } from "@flowgate/client";
import { Link } from "wouter";
import { describeOutcome } from "../../components/describe.ts";
import { SelectFilter, TextFilter, TimeFilter, useFilters } from "../../components/filters.tsx";
import { Page, Result } from "../../components/page.tsx";
import {
  deploymentTypes,
  RevisionAuthor,
  RevisionCauseText,
  RevisionOutcome,
  shortRev,
} from "../../components/revision.tsx";
import { Sign } from "../../components/sign.tsx";
import { byPage, type Column, LoadMore, Table } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";
import { texts as revisionTexts } from "../../texts/revision.ts";
import { filterNames, outcomeNames, requestOf, type RevisionFilters, typeNames } from "./filters.ts";
import { RestoreButton } from "./restore-button.tsx";

export function RevisionList(): ReactNode {
  const [filters, change] = useFilters(filterNames);
  const request = { ...requestOf(filters), pageSize: 50, pageToken: "" };
  const list = useInfiniteQuery(RevisionsService.method.listRevisions, request, byPage);
  return (
    <Page title="History" actions={<RestoreButton />}>
      <FilterForm filters={filters} onChange={change} />
      <Result of={list}>
        {({ pages }) => (
          <>
            <Table
              label="Revisions"
              columns={columns}
              rows={pages.flatMap(({ revisions }) => revisions)}
              keyOf={({ rev }) => rev}
              empty="No revision has these properties."
            />
            <LoadMore of={list} />
          </>
        )}
      </Result>
    </Page>
  );
}

const columns: readonly Column<Revision>[] = [
  { title: "Revision", cell: (revision) => <Title revision={revision} /> },
  { title: "By", cell: (revision) => <RevisionAuthor of={revision} /> },
  { title: "Cause", cell: (revision) => <RevisionCauseText of={revision} /> },
  { title: "Outcome", cell: (revision) => <RevisionOutcome of={revision} /> },
  { title: "Nodes", cell: ({ nodeCount }) => nodeCount },
  { title: "Deployed", cell: ({ createTime }) => <Time at={createTime} /> },
];

function Title({ revision: { rev, message, active, pinned } }: { readonly revision: Revision }): ReactNode {
  return (
    <span className="revision-title">
      <Link href={`/history/${encodeURIComponent(rev)}`} className="revision-link" onKeyDown={moveByArrow}>
        {message === "" ? revisionTexts.rev(shortRev(rev)) : <bdi>{visibleText(message)}</bdi>}
      </Link>
      {message === "" ? null : <code className="muted">{shortRev(rev)}</code>}
      {active ? <Sign tone="info">{texts.active}</Sign> : null}
      {pinned ? <Sign tone="neutral">{texts.pinned}</Sign> : null}
    </span>
  );
}

/** The arrow keys move the focus to the revision above or below. */
function moveByArrow(event: KeyboardEvent<HTMLAnchorElement>): void {
  const row = event.currentTarget.closest("tr");
  const next =
    event.key === "ArrowDown"
      ? row?.nextElementSibling
      : event.key === "ArrowUp"
        ? row?.previousElementSibling
        : undefined;
  const link = next?.querySelector<HTMLElement>(".revision-link");
  if (link !== null && link !== undefined) {
    event.preventDefault();
    link.focus();
  }
}

function FilterForm({
  filters,
  onChange,
}: {
  readonly filters: RevisionFilters;
  readonly onChange: (changes: Partial<RevisionFilters>) => void;
}): ReactNode {
  // Stays open when the last of them is removed.
  const [hasMore] = useState(() =>
    [filters.type, filters.pinned, filters.since, filters.until].some((value) => value !== ""),
  );
  return (
    <search className="filters" aria-label="Filters">
      <TextFilter label="User" value={filters.user} onChange={(user) => onChange({ user })} />
      <SelectFilter
        label="Outcome"
        value={filters.outcome}
        all={texts.filters.any}
        options={Array.from(outcomeNames, ([value, outcome]) => ({ value, label: describeOutcome(outcome)[0] }))}
        onChange={(outcome) => onChange({ outcome })}
      />
      <details className="history-filters" open={hasMore}>
        <summary>More filters</summary>
        <div className="filters">
          <SelectFilter
            label="Restarted"
            value={filters.type}
            all={texts.filters.any}
            options={Array.from(typeNames, ([value, type]) => ({ value, label: deploymentTypes[type] ?? value }))}
            onChange={(type) => onChange({ type })}
          />
          <SelectFilter
            label="Pinned"
            value={filters.pinned}
            all={texts.filters.any}
            options={[
              { value: "yes", label: "Pinned only" },
              { value: "no", label: "Not pinned" },
            ]}
            onChange={(pinned) => onChange({ pinned })}
          />
          <TimeFilter label="From" value={filters.since} onChange={(since) => onChange({ since })} />
          <TimeFilter label="Until" value={filters.until} onChange={(until) => onChange({ until })} />
        </div>
      </details>
    </search>
  );
}
