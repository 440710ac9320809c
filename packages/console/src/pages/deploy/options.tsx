import type { ReactNode } from "react";
import { DeploymentType, OnFailure } from "@flowgate/client";

export type Options = {
  readonly type: DeploymentType;
  readonly message: string;
  /** Seconds; empty: not at all. */
  readonly wait: string;
  readonly maxErrors: string;
  readonly undo: boolean;
};

export const defaultOptions: Options = {
  type: DeploymentType.FULL,
  message: "",
  wait: "10",
  maxErrors: "",
  undo: false,
};

export function optionFields({ type, message, wait, maxErrors, undo }: Options) {
  return {
    deploymentType: type,
    message: message.trim(),
    ...(wait !== "" && { wait: Number(wait) }),
    ...(maxErrors !== "" && { maxErrors: Number(maxErrors) }),
    ...(undo && { onFailure: OnFailure.UNDO }),
  };
}

const types = [
  [DeploymentType.FULL, "all nodes (full)"],
  [DeploymentType.FLOWS, "changed nodes, and nodes wired to them (flows)"],
  [DeploymentType.NODES, "only changed nodes (nodes)"],
] as const;

/** The service's limit, in seconds. */
const maxWait = 600;

export function OptionFields({
  options,
  onChange,
}: {
  readonly options: Options;
  readonly onChange: (options: Options) => void;
}): ReactNode {
  return (
    <fieldset className="deploy-options">
      <legend>Deployment</legend>
      <label className="deploy-message">
        Message
        <input
          type="text"
          maxLength={1000}
          value={options.message}
          onChange={({ target }) => onChange({ ...options, message: target.value })}
        />
      </label>
      <label>
        Restart
        <select
          value={options.type}
          onChange={({ target }) => onChange({ ...options, type: Number(target.value) as DeploymentType })}
        >
          {types.map(([type, label]) => (
            <option key={type} value={type}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        Observe for (seconds)
        <input
          type="number"
          min={0}
          max={maxWait}
          step={1}
          value={options.wait}
          onChange={({ target }) => onChange({ ...options, wait: target.value })}
        />
      </label>
      <label>
        Tolerated errors
        <input
          type="number"
          min={0}
          step={1}
          value={options.maxErrors}
          onChange={({ target }) => onChange({ ...options, maxErrors: target.value })}
        />
      </label>
      <label className="inline">
        <input
          type="checkbox"
          checked={options.undo}
          onChange={({ target }) => onChange({ ...options, undo: target.checked })}
        />
        Undo if the flows fail in this time
      </label>
    </fieldset>
  );
}
