import { type ReactNode, useState } from "react";
import { type ChangeModuleResponse, ModulesService } from "@flowgate/client";
import { useEvents } from "../../api/live.tsx";
import { useRefresh } from "../../api/refresh.ts";
import { useAction } from "../../components/action.ts";
import { DialogButton, DialogForm } from "../../components/dialog.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/modules.ts";

export type ChangeAction = "install" | "update" | "remove" | "enable" | "disable";

export type Change = { readonly action: ChangeAction; readonly response: ChangeModuleResponse };

export function ChangeDialog({
  label,
  title,
  description,
  action,
  isMain = false,
  isReady = true,
  onOpen,
  run,
  onChange,
  children,
}: {
  readonly label: ReactNode;
  readonly title: string;
  readonly description: string;
  readonly action: ChangeAction;
  readonly isMain?: boolean;
  readonly isReady?: boolean;
  readonly onOpen?: () => void;
  readonly run: (deferRestart: boolean) => Promise<ChangeModuleResponse>;
  readonly onChange: (change: Change) => void;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <DialogButton
      label={label}
      className={isMain ? "primary" : ""}
      title={title}
      description={description}
      {...(onOpen && { onOpen })}
    >
      {(close) => (
        <ChangeForm
          isReady={isReady}
          confirm={texts[action]}
          isDangerous={action === "remove"}
          run={async (deferRestart) => {
            onChange({ action, response: await run(deferRestart) });
            close();
          }}
          onClose={close}
        >
          {children}
        </ChangeForm>
      )}
    </DialogButton>
  );
}

function ChangeForm({
  confirm,
  isDangerous,
  isReady,
  run,
  onClose,
  children,
}: {
  readonly confirm: string;
  readonly isDangerous: boolean;
  readonly isReady: boolean;
  readonly run: (deferRestart: boolean) => Promise<void>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactNode {
  const refresh = useRefresh(ModulesService.method.listModules);
  const [restarts, setRestarts] = useState(true);
  const { isBusy, error, run: start } = useAction();
  return (
    <DialogForm
      error={error}
      submit={isBusy ? "Working …" : confirm}
      cancel={isBusy ? appTexts.close : appTexts.cancel}
      isDangerous={isDangerous}
      isDisabled={isBusy || !isReady}
      onSubmit={() => void start(() => run(!restarts)).then(refresh)}
      onClose={onClose}
    >
      {children}
      <div>
        <label className="inline">
          <input type="checkbox" checked={restarts} onChange={(event) => setRestarts(event.target.checked)} />
          Start the flows again now
        </label>
        <p className="muted">
          In a new process, so that the context in memory is lost, unless modules are only added, enabled or disabled:
          then they go on. Otherwise they have the change when they are started the next time in a new process.
        </p>
      </div>
      {isBusy ? (
        <div>
          <Progress then={restarts ? "Starting the flows …" : ""} />
          <p className="muted">If this is closed, the change goes on.</p>
        </div>
      ) : null}
    </DialogForm>
  );
}

/**
 * The step of the change in progress, including changes begun by others, and the text after the last step. Empty if
 * there is none.
 */
export function Progress({ then = "" }: { readonly then?: string }): ReactNode {
  const [step, setStep] = useState<string>();
  useEvents(["module"], ({ kind: { value } }) => {
    const module = value.version === "" ? value.name : `${value.name}@${value.version}`;
    setStep(
      value.state === "running" ? [texts.progress(value.action, module), value.message].filter(Boolean).join(": ") : "",
    );
  });
  return <output className="modules-progress">{step === undefined ? "" : visibleText(step || then)}</output>;
}
