import type { ReactNode } from "react";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { type ChangeModuleResponse, DeploymentOutcome, ModulesService, RuntimeService } from "@flowgate/client";
import { Link } from "wouter";
import { useRefresh } from "../../api/refresh.ts";
import { useAction } from "../../components/action.ts";
import { Problem } from "../../components/notice.tsx";
import { OutcomeSign } from "../../components/sign.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/modules.ts";
import type { Change } from "./change-dialog.tsx";

type Restart = Pick<ChangeModuleResponse, "outcome" | "missingTypes">;

/** What a change has resulted in: whether the flows run with it, or have to be restarted. */
export function ChangeResult({
  of: { action, response },
  onChange,
  onClose,
}: {
  readonly of: Change;
  readonly onChange: (change: Change) => void;
  readonly onClose: () => void;
}): ReactNode {
  const { can } = useSession();
  const { outcome, missingTypes } = response;
  const { name = "", version = "" } = response.module ?? {};
  const scripts = response.scriptsNotRun.filter((each) => !response.scriptsNeverRun.includes(each));
  const isDeferred = outcome === DeploymentOutcome.UNSPECIFIED;
  return (
    <section className="card" aria-label={texts.result}>
      <output>
        {visibleText(texts.changed[action](`${name} ${version}`))}{" "}
        {isDeferred ? (
          texts.deferred
        ) : (
          <>
            {response.restarted === false ? texts.goOn : texts.startedAgain} <OutcomeSign outcome={outcome} />{" "}
            {outcome === DeploymentOutcome.RUNNING ? null : <Link href="/">{texts.showReason}</Link>}
          </>
        )}
      </output>
      {missingTypes.length === 0 ? null : <p>{visibleText(texts.stillMissing(missingTypes.join(", ")))}</p>}
      {scripts.length === 0 ? null : <p>{visibleText(texts.scriptsNotRun(scripts.join(", ")))}</p>}
      {response.scriptsNeverRun.length === 0 ? null : (
        <p>{visibleText(texts.scriptsNeverRun(response.scriptsNeverRun.join(", ")))}</p>
      )}
      <div className="actions">
        {isDeferred && can("runtime.write") ? (
          <RestartButton onRestart={(restart) => onChange({ action, response: { ...response, ...restart } })} />
        ) : null}
        <button type="button" onClick={onClose}>
          {appTexts.close}
        </button>
      </div>
    </section>
  );
}

function RestartButton({ onRestart }: { readonly onRestart: (restart: Restart) => void }): ReactNode {
  const transport = useTransport();
  const refresh = useRefresh(ModulesService.method.listModules);
  const { isBusy, error, run } = useAction();
  const restart = async (): Promise<void> => {
    const { outcome, missingTypes } = await callUnaryMethod(transport, RuntimeService.method.restartRuntime, {});
    onRestart({ outcome, missingTypes });
    await refresh();
  };
  return (
    <>
      {error === undefined ? null : <Problem error={error} />}
      <button type="button" className="primary" disabled={isBusy} onClick={() => void run(restart)}>
        {isBusy ? texts.restarting : texts.restart}
      </button>
    </>
  );
}
