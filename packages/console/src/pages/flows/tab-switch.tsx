import type { ReactNode } from "react";
import { useMutation } from "@connectrpc/connect-query";
import { FlowsService, RevisionsService, RuntimeService } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { visibleText } from "../../components/visible-text.ts";
import type { FlowContainer } from "../../flow-view/flow-nodes.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/flows.ts";

/** Enables or disables a tab. Fails if another revision than the one that is shown has become active. */
export function TabSwitch({ container, rev }: { readonly container: FlowContainer; readonly rev: string }): ReactNode {
  const { can } = useSession();
  const enable = useMutation(FlowsService.method.enableFlow);
  const disable = useMutation(FlowsService.method.disableFlow);
  const refresh = useRefresh(
    FlowsService.method.getFlows,
    RevisionsService.method.listRevisions,
    RuntimeService.method.listNodeStatuses,
  );
  if (container.kind !== "tab" || !can("flows.write")) {
    return null;
  }
  const { id, isDisabled } = container;
  const name = visibleText(container.name);
  return (
    <ConfirmButton
      label={isDisabled ? texts.enable : texts.disable}
      title={isDisabled ? texts.enableTitle(name) : texts.disableTitle(name)}
      description={isDisabled ? texts.enableHint : texts.disableHint}
      confirm={isDisabled ? texts.enable : texts.disable}
      onConfirm={async () => {
        await (isDisabled ? enable : disable).mutateAsync({ id, rev });
        await refresh();
      }}
    />
  );
}
