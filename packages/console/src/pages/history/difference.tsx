import { lazy, type ReactNode, Suspense } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { type Revision, RevisionsService } from "@flowgate/client";
import { DiffFlows } from "../../components/flows-diff/flows-diff.tsx";
import { useFilters } from "../../components/filters.tsx";
import { Loading } from "../../components/notice.tsx";
import { Result } from "../../components/page.tsx";
import { shortRev } from "../../components/revision.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";
import { useRecentRevisions } from "./active-revision.ts";

const DifferencePicture = lazy(async () => ({ default: (await import("./difference-picture.tsx")).DifferencePicture }));

/** What changes from another revision, which can be chosen, to this one. */
export function Difference({ revision: { rev, parent } }: { readonly revision: Revision }): ReactNode {
  const [{ base, view }, change] = useFilters(["base", "view"]);
  const isPicture = view === "picture";
  const { revisions, active } = useRecentRevisions();
  const isWaiting = base === "active" && active === undefined;
  const difference = useQuery(
    RevisionsService.method.diffRevision,
    { rev, base: base === "active" ? (active?.rev ?? "") : base },
    { enabled: !isWaiting },
  );
  return (
    <section className="card">
      <div className="difference-heading">
        <h2>{texts.difference}</h2>
        <label className="inline">
          {texts.comparedWith}
          <select value={base} onChange={({ target }) => change({ base: target.value })}>
            <option value="">{parent === "" ? texts.withNothing : texts.withParent}</option>
            {active?.rev === rev ? null : <option value="active">{texts.withActive}</option>}
            {revisions
              .filter((each) => each.rev !== rev)
              .map((each) => (
                <option key={each.rev} value={each.rev}>
                  {describe(each)}
                </option>
              ))}
            {base === "" || base === "active" || revisions.some((each) => each.rev === base) ? null : (
              <option value={base}>{shortRev(base)}</option>
            )}
          </select>
        </label>
      </div>
      <div className="view-switch">
        <button type="button" aria-pressed={!isPicture} onClick={() => change({ view: "" })}>
          {texts.asText}
        </button>
        <button type="button" aria-pressed={isPicture} onClick={() => change({ view: "picture" })}>
          {texts.asPicture}
        </button>
      </div>
      <Result of={difference}>
        {({ diff, base, rev }) =>
          diff === undefined ? null : isPicture ? (
            <Suspense fallback={<Loading />}>
              <DifferencePicture key={`${base} ${rev}`} diff={diff} base={base} rev={rev} />
            </Suspense>
          ) : (
            <DiffFlows diff={diff} />
          )
        }
      </Result>
    </section>
  );
}

const maxMessageLength = 60;

function describe({ rev, message, user }: Revision): string {
  const short = message.length <= maxMessageLength ? message : `${message.slice(0, maxMessageLength)}…`;
  return [shortRev(rev), visibleText(short), visibleText(user)].filter((part) => part !== "").join(" · ");
}
