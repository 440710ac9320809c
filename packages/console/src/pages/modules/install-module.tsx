import { type ReactNode, useState } from "react";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { ModulesService } from "@flowgate/client";
import { Field } from "../../components/field.tsx";
import { texts } from "../../texts/modules.ts";
import { type Change, ChangeDialog } from "./change-dialog.tsx";

export function InstallModule({
  label = texts.install,
  name: givenName = "",
  version: givenVersion = "",
  isMain = false,
  onChange,
}: {
  readonly label?: ReactNode;
  readonly name?: string;
  readonly version?: string;
  readonly isMain?: boolean;
  readonly onChange: (change: Change) => void;
}): ReactNode {
  const transport = useTransport();
  const [isUpload, setUpload] = useState(false);
  const [name, setName] = useState(givenName);
  const [version, setVersion] = useState(givenVersion);
  const [file, setFile] = useState<File>();
  const source = (upload: boolean, text: string): ReactNode => (
    <label className="inline">
      <input type="radio" name="source" checked={isUpload === upload} onChange={() => setUpload(upload)} />
      {text}
    </label>
  );
  return (
    <ChangeDialog
      label={label}
      title="Install a module"
      description="The code of a module runs in the runtime process, with the rights of flows."
      action="install"
      isMain={isMain}
      onOpen={() => {
        setUpload(false);
        setName(givenName);
        setVersion(givenVersion);
        setFile(undefined);
      }}
      isReady={isUpload ? file !== undefined : name.trim() !== ""}
      run={async (deferRestart) =>
        callUnaryMethod(transport, ModulesService.method.installModule, {
          deferRestart,
          ...(isUpload && file !== undefined
            ? { tarball: new Uint8Array(await file.arrayBuffer()) }
            : { name: name.trim(), version: version.trim() }),
        })
      }
      onChange={onChange}
    >
      <fieldset className="modules-source">
        <legend className="visually-hidden">Source</legend>
        {source(false, "From the registry")}
        {source(true, "From a file")}
      </fieldset>
      {isUpload ? (
        <Field label="Package" hint="A tarball (.tgz) as npm pack makes it.">
          {(attributes) => (
            <input
              {...attributes}
              type="file"
              accept=".tgz,.tar.gz,application/gzip"
              onChange={(event) => setFile(event.target.files?.[0])}
            />
          )}
        </Field>
      ) : (
        <>
          <Field label="Name" hint="As for npm, such as node-red-contrib-cron-plus or @flowfuse/node-red-dashboard.">
            {(attributes) => (
              <input
                {...attributes}
                autoComplete="off"
                autoCapitalize="none"
                spellCheck={false}
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
            )}
          </Field>
          <VersionField value={version} onChange={setVersion} />
        </>
      )}
    </ChangeDialog>
  );
}

export function VersionField({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (version: string) => void;
}): ReactNode {
  return (
    <Field label="Version" hint="Exact, a range such as ^2.0.0, or a tag. Empty: the newest.">
      {(attributes) => (
        <input
          {...attributes}
          autoComplete="off"
          spellCheck={false}
          placeholder="latest"
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
