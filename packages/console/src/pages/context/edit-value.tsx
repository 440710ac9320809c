import { type ReactNode, useState } from "react";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { ContextService } from "@flowgate/client";
import { useAction } from "../../components/action.ts";
import { Dialog, DialogForm } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { texts } from "../../texts/context.ts";

export function EditValue({
  title,
  description,
  json: before,
  store,
  place,
  children,
  onSaved,
  onClose,
}: {
  readonly title: string;
  readonly description: string;
  readonly json: string;
  readonly store: string;
  /** Such as `global/counter`; empty: not complete. */
  readonly place: string;
  readonly children?: ReactNode;
  readonly onSaved: () => Promise<unknown>;
  readonly onClose: () => void;
}): ReactNode {
  const transport = useTransport();
  const [json, setJson] = useState(before);
  const { isBusy, error, run } = useAction();

  const save = async (): Promise<void> => {
    const value = fromJson(ValueSchema, parseJson(json));
    await callUnaryMethod(transport, ContextService.method.setContext, { scope: place, store, content: { value } });
    await onSaved();
    onClose();
  };

  return (
    <Dialog title={title} description={description} isOpen onClose={onClose}>
      <DialogForm
        error={error}
        submit={isBusy ? "Saving …" : "Save"}
        isDisabled={isBusy || place === ""}
        onSubmit={() => void run(save)}
        onClose={onClose}
      >
        {children}
        <Field label="Value as JSON" hint={'Such as 7, true, "text", [1, 2] or {"a": null}.'}>
          {(attributes) => (
            <textarea
              {...attributes}
              required
              rows={8}
              spellCheck={false}
              value={json}
              onChange={(event) => setJson(event.target.value)}
            />
          )}
        </Field>
      </DialogForm>
    </Dialog>
  );
}

function parseJson(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (error) {
    throw new Error(texts.notJson((error as SyntaxError).message), { cause: error });
  }
}
