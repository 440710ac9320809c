import { type ReactNode, useMemo } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { type Event, RuntimeService } from "@flowgate/client";
import { type Filters, SelectFilter, TextFilter, TimeFilter } from "../../components/filters.tsx";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/logs.ts";
import { type filterNames, formatKinds, type Kind } from "./log-filters.ts";

type LogFilters = Filters<(typeof filterNames)[number]>;

const levels = Object.entries(texts.levels).map(([value, label]) => ({ value, label }));

/** Selects entries. On a phone, it is closed at first. */
export function FilterBar({
  filters,
  onChange,
  permitted,
  chosen,
  seen,
}: {
  readonly filters: LogFilters;
  readonly onChange: (changes: Partial<LogFilters>) => void;
  readonly permitted: readonly Kind[];
  readonly chosen: readonly Kind[];
  readonly seen: readonly Event[];
}): ReactNode {
  const toggle = (kind: Kind): void => {
    const next = permitted.filter((each) => chosen.includes(each) !== (each === kind));
    onChange({ kinds: formatKinds(next, permitted) });
  };
  return (
    <details className="logs-filters" open={matchMedia("(min-width: 641px)").matches}>
      <summary>{texts.filters}</summary>
      <fieldset>
        <legend>{texts.kinds}</legend>
        {permitted.map((kind) => (
          <label key={kind.name} className="inline">
            <input type="checkbox" checked={chosen.includes(kind)} onChange={() => toggle(kind)} />
            {texts.kind[kind.name]}
          </label>
        ))}
      </fieldset>
      <div className="filters">
        <SelectFilter
          label={texts.level}
          value={filters.level}
          all={texts.allLevels}
          options={levels}
          onChange={(level) => onChange({ level })}
        />
        <SelectFilter
          label={texts.tab}
          value={filters.tab}
          all={texts.allTabs}
          options={useTabs(filters.tab, seen)}
          onChange={(tab) => onChange({ tab })}
        />
        <TextFilter label={texts.node} value={filters.node} onChange={(node) => onChange({ node })} />
        <TimeFilter label={texts.since} value={filters.since} onChange={(since) => onChange({ since })} />
        <TimeFilter label={texts.until} value={filters.until} onChange={(until) => onChange({ until })} />
        <TextFilter label={texts.text} value={filters.text} onChange={(text) => onChange({ text })} />
      </div>
    </details>
  );
}

/** The tabs that run or have entries, and the one that is selected: reading all flows for their names would take long. */
function useTabs(selected: string, seen: readonly Event[]): { value: string; label: string }[] {
  const { can } = useSession();
  const { data } = useQuery(
    RuntimeService.method.listNodeStatuses,
    { pageSize: 1 },
    { enabled: can("runtime.read"), retry: false },
  );
  return useMemo(() => {
    const labels = new Map<string, string>(selected === "" ? [] : [[selected, selected]]);
    for (const { flowId, flowLabel } of [...seen, ...(data?.flows ?? [])]) {
      if (flowId !== "" && (flowLabel !== "" || !labels.has(flowId))) {
        labels.set(flowId, flowLabel || flowId);
      }
    }
    return Array.from(labels, ([value, label]) => ({ value, label })).toSorted((one, other) =>
      one.label.localeCompare(other.label),
    );
  }, [selected, seen, data]);
}
