import { type ReactNode, useEffect, useRef, useState } from "react";
import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { AuditService } from "@flowgate/client";
import { DialogButton } from "../../components/dialog.tsx";
import { download } from "../../components/download.ts";
import { Problem } from "../../components/notice.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/audit.ts";
import { writeExport } from "./export.ts";

export function ExportAudit(): ReactNode {
  return (
    <DialogButton
      label="Export"
      title="Export the audit log"
      description="All entries, oldest first, as lines of JSON (NDJSON), as GET /audit:export sends them."
    >
      {(close) => <Export onClose={close} />}
    </DialogButton>
  );
}

/** Ends the export when it is closed. */
function Export({ onClose }: { readonly onClose: () => void }): ReactNode {
  const transport = useTransport();
  const running = useRef<AbortController>(null);
  const [entries, setEntries] = useState<number>();
  const [isDone, setDone] = useState(false);
  const [error, setError] = useState<unknown>();
  useEffect(() => () => running.current?.abort(), []);

  const run = async (): Promise<void> => {
    const controller = new AbortController();
    running.current = controller;
    setError(undefined);
    setEntries(0);
    try {
      const responses = createClient(AuditService, transport).exportAudit({}, { signal: controller.signal });
      const file = await writeExport(responses, setEntries);
      download(file, `flowgate-audit-${new Date().toISOString().slice(0, 10)}.ndjson`);
      setDone(true);
    } catch (thrown) {
      if (!controller.signal.aborted) {
        setEntries(undefined);
        setError(thrown);
      }
    }
  };

  return (
    <>
      {error === undefined ? null : <Problem error={error} />}
      <output>{describe(entries, isDone)}</output>
      <div className="dialog-actions">
        <button type="button" onClick={onClose}>
          {isDone ? "Done" : appTexts.cancel}
        </button>
        {isDone ? null : (
          <button type="button" className="primary" disabled={entries !== undefined} onClick={() => void run()}>
            Download
          </button>
        )}
      </div>
    </>
  );
}

function describe(entries: number | undefined, isDone: boolean): string {
  if (entries === undefined) {
    return "";
  }
  return isDone ? texts.exported(entries) : texts.exporting(entries);
}
