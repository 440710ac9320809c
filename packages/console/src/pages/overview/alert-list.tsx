import type { ReactNode } from "react";
import { Link } from "wouter";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/overview.ts";
import type { Alert } from "./alerts.ts";

/** What an operator should know of. Screen readers read it when it changes. */
export function AlertList({
  alerts,
  onDismiss,
}: {
  readonly alerts: readonly Alert[];
  /** Called with the name of a replica. */
  readonly onDismiss: (name: string) => void;
}): ReactNode {
  return (
    <section aria-label={texts.alerts} aria-live="polite" className="overview-alerts">
      {alerts.length === 0 ? (
        <p className="muted">{texts.noAlerts}</p>
      ) : (
        <ul>
          {alerts.map(({ key, tone, title, detail, link, replica }) => (
            <li key={key} className="problem" data-tone={tone}>
              <div>
                <strong>{visibleText(title)}</strong>
                {detail === "" ? null : <p>{visibleText(detail)}</p>}
              </div>
              {link === undefined ? null : (
                <Link href={link.to} className="button">
                  {link.label}
                </Link>
              )}
              {replica === undefined ? null : (
                <button type="button" onClick={() => onDismiss(replica)}>
                  {texts.alert.dismiss}
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
