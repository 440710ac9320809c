import "./audit.css";
import type { ReactNode } from "react";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { type AuditEntry, AuditService } from "@flowgate/client";
import { Link } from "wouter";
import { apiUrl } from "../../api/paths.ts";
import { useRefresh } from "../../api/refresh.ts";
import { DialogButton } from "../../components/dialog.tsx";
import { Fact } from "../../components/fact.tsx";
import { SelectFilter, TextFilter, TimeFilter, useFilters } from "../../components/filters.tsx";
import { Page, Result } from "../../components/page.tsx";
import { byPage, type Column, LoadMore, Table } from "../../components/table.tsx";
import { ExactTime } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/audit.ts";
import { filterNames, kinds, labelOfKind, nameOfKind, toRequest } from "./filters.ts";
import { pathOfSubject } from "./subject.ts";
import { VerifyAudit } from "./verify-dialog.tsx";

const pageSize = 100;

export function AuditPage(): ReactNode {
  const [filters, setFilters] = useFilters(filterNames);
  const refresh = useRefresh(AuditService.method.listAuditEntries);
  const list = useInfiniteQuery(
    AuditService.method.listAuditEntries,
    { ...toRequest(filters), pageSize, pageToken: "" },
    byPage,
  );
  const entries = list.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <Page
      title="Audit"
      actions={
        <>
          <button type="button" onClick={() => void refresh()}>
            Refresh
          </button>
          <VerifyAudit />
          <a className="button" href={`${apiUrl}/audit:export`} download="flowgate-audit.ndjson">
            Export
          </a>
        </>
      }
    >
      <p className="muted">
        Who changed what, who signed in, and who was refused. Each entry has a hash over itself and the one before it.
      </p>
      <div className="filters">
        <TextFilter
          label={texts.user}
          value={filters.user}
          suggestions={[...new Set(entries.map(({ user }) => user))].filter((user) => user !== "")}
          onChange={(user) => setFilters({ user })}
        />
        <SelectFilter
          label="Kind"
          value={filters.kind}
          all="All kinds"
          options={kinds}
          onChange={(kind) => setFilters({ kind })}
        />
        <TimeFilter label="Since" value={filters.since} onChange={(since) => setFilters({ since })} />
        <TimeFilter label="Until" value={filters.until} onChange={(until) => setFilters({ until })} />
      </div>
      <Result of={list}>
        {() => (
          <>
            <Table
              label="Entries of the audit log, newest first"
              columns={columns}
              rows={entries}
              keyOf={({ seq }) => seq}
              empty="There are no such entries."
            />
            <LoadMore of={list} />
          </>
        )}
      </Result>
    </Page>
  );
}

const columns: readonly Column<AuditEntry>[] = [
  { title: "Time", cell: ({ time }) => <ExactTime at={time} /> },
  {
    title: "What",
    cell: ({ kind, count }) => (count > 1 ? `${labelOfKind(kind)}, ${texts.times(count)}` : labelOfKind(kind)),
  },
  { title: texts.user, cell: (entry) => <Caller of={entry} /> },
  { title: "From", cell: ({ address }) => address },
  {
    title: "Subject",
    cell: (entry) => (
      <>
        <Subject of={entry} /> {shorten(entry.detail)}
      </>
    ),
  },
  { title: texts.details, isUntitled: true, cell: (entry) => <Details of={entry} /> },
];

function Subject({ of: entry }: { readonly of: AuditEntry }): ReactNode {
  if (entry.subject === "") {
    return null;
  }
  const path = pathOfSubject(entry);
  const text = <code>{shorten(entry.subject)}</code>;
  return path === undefined ? text : <Link href={path}>{text}</Link>;
}

function Caller({ of: { user, tokenName } }: { readonly of: AuditEntry }): ReactNode {
  if (user === "") {
    return <span className="muted">not known</span>;
  }
  return (
    <>
      {visibleText(user)}{" "}
      {tokenName === "" ? null : <span className="muted">({visibleText(texts.byToken(tokenName))})</span>}
    </>
  );
}

function Details({ of: entry }: { readonly of: AuditEntry }): ReactNode {
  const label = (
    <>
      {texts.details} <span className="visually-hidden">{texts.entry(entry.seq)}</span>
    </>
  );
  return (
    <DialogButton label={label} title={texts.entry(entry.seq)}>
      {(close) => (
        <>
          <dl className="facts">
            <Fact name={texts.fields.time}>
              <ExactTime at={entry.time} />
            </Fact>
            <Fact name={texts.fields.kind}>
              {labelOfKind(entry.kind)} <code>{nameOfKind(entry.kind)}</code>
            </Fact>
            {facts(entry).map(([title, value]) => (
              <Fact key={title} name={title}>
                {visibleText(value)}
              </Fact>
            ))}
          </dl>
          <div className="dialog-actions">
            <button type="button" onClick={close}>
              {appTexts.close}
            </button>
          </div>
        </>
      )}
    </DialogButton>
  );
}

function facts(entry: AuditEntry): readonly (readonly [title: string, value: string])[] {
  const { user, tokenId, tokenName, address, protocol, requestId, subject, detail, count, digest, hash } = entry;
  const { fields } = texts;
  return [
    [fields.user, user],
    [fields.token, `${tokenName} ${tokenId}`.trim()],
    [fields.address, address],
    [fields.protocol, protocol],
    [fields.requestId, requestId],
    [fields.subject, subject],
    [fields.detail, detail],
    [fields.count, String(count)],
    [fields.digest, digest],
    [fields.hash, hash],
  ];
}

const shownChars = 120;

function shorten(text: string): string {
  return visibleText(text.length > shownChars ? `${text.slice(0, shownChars)} …` : text);
}
