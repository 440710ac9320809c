import { type ReactNode, useState } from "react";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { type Module, ModulesService } from "@flowgate/client";
import { texts } from "../../texts/modules.ts";
import { type Change, type ChangeAction, ChangeDialog } from "./change-dialog.tsx";
import { VersionField } from "./install-module.tsx";

type Props = { readonly module: Module; readonly onChange: (change: Change) => void };

export function ModuleActions({ module, onChange }: Props): ReactNode {
  return (
    <div className="actions">
      <Update module={module} onChange={onChange} />
      {module.enabled ? (
        <Withdraw module={module} action="disable" onChange={onChange} />
      ) : (
        <Enable module={module} onChange={onChange} />
      )}
      <Withdraw module={module} action="remove" onChange={onChange} />
    </div>
  );
}

function Update({ module: { name, version: current }, onChange }: Props): ReactNode {
  const transport = useTransport();
  const [version, setVersion] = useState("");
  return (
    <ChangeDialog
      label={<Label action="update" name={name} />}
      title={texts.updateTitle(name)}
      description={texts.updateHint(current)}
      action="update"
      onOpen={() => setVersion("")}
      run={(deferRestart) =>
        callUnaryMethod(transport, ModulesService.method.updateModule, {
          name,
          version: version.trim() || "latest",
          deferRestart,
        })
      }
      onChange={onChange}
    >
      <VersionField value={version} onChange={setVersion} />
    </ChangeDialog>
  );
}

function Enable({ module: { name }, onChange }: Props): ReactNode {
  const transport = useTransport();
  return (
    <ChangeDialog
      label={<Label action="enable" name={name} />}
      title={texts.enableTitle(name)}
      description="The flow runtime loads it again."
      action="enable"
      run={(deferRestart) =>
        callUnaryMethod(transport, ModulesService.method.updateModule, { name, enabled: true, deferRestart })
      }
      onChange={onChange}
    />
  );
}

/** Disables or removes a module. If it is in use, that has to be confirmed. */
function Withdraw({
  module: { name, nodeCount },
  action,
  onChange,
}: Props & { readonly action: "disable" | "remove" }): ReactNode {
  const transport = useTransport();
  const [isForced, setForced] = useState(false);
  const isUsed = nodeCount > 0;
  const [title, description] =
    action === "remove"
      ? [texts.removeTitle(name), "Its files are removed. It can be installed again."]
      : [texts.disableTitle(name), "It stays installed, but the flow runtime does not load it."];
  const { deleteModule, updateModule } = ModulesService.method;
  return (
    <ChangeDialog
      label={<Label action={action} name={name} />}
      title={title}
      description={description}
      action={action}
      onOpen={() => setForced(false)}
      isReady={!isUsed || isForced}
      run={(deferRestart) =>
        action === "remove"
          ? callUnaryMethod(transport, deleteModule, { name, force: isForced, deferRestart })
          : callUnaryMethod(transport, updateModule, { name, enabled: false, force: isForced, deferRestart })
      }
      onChange={onChange}
    >
      {isUsed ? (
        <div className="problem">
          <p>{texts.inUse(nodeCount)}</p>
          <label className="inline">
            <input type="checkbox" checked={isForced} onChange={(event) => setForced(event.target.checked)} />
            All the same: the flows will not run
          </label>
        </div>
      ) : null}
    </ChangeDialog>
  );
}

function Label({ action, name }: { readonly action: ChangeAction; readonly name: string }): ReactNode {
  return (
    <>
      {texts[action]} <span className="visually-hidden">{name}</span>
    </>
  );
}
