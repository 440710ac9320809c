import { type ReactNode, useRef, useState } from "react";
import { setNonce } from "get-nonce";
import { Dialog as RadixDialog } from "radix-ui";
import { texts } from "../texts/app.ts";
import { useAction } from "./action.ts";
import { cspNonce } from "./csp-nonce.ts";
import { Problem } from "./notice.tsx";

// A dialog adds a style, which keeps the page behind it from scrolling.
setNonce(cspNonce);

/** A modal dialog. It keeps the focus, and gives it back. Escape closes it. */
export function Dialog({
  title,
  description,
  isOpen,
  onClose,
  children,
}: {
  readonly title: string;
  readonly description?: ReactNode;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactNode {
  const opener = useRef<Element>(null);
  return (
    <RadixDialog.Root open={isOpen} onOpenChange={(open) => (open ? undefined : onClose())}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className="dialog-overlay" />
        <RadixDialog.Content
          className="dialog"
          onOpenAutoFocus={() => {
            opener.current = document.activeElement;
          }}
          onCloseAutoFocus={(event) => {
            event.preventDefault();
            focusAgain(opener.current);
          }}
          {...(description === undefined && { "aria-describedby": undefined })}
        >
          <RadixDialog.Title asChild>
            <h2>{title}</h2>
          </RadixDialog.Title>
          {description === undefined ? null : (
            <RadixDialog.Description asChild>
              <div>{description}</div>
            </RadixDialog.Description>
          )}
          {children}
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

/**
 * Moves the focus to the page's content if its element was removed with the dialog; from the body, Tab would start at
 * the top.
 */
function focusAgain(element: Element | null): void {
  const target = element?.isConnected === true ? element : document.querySelector("#content");
  if (target instanceof HTMLElement) {
    target.focus();
  }
}

export function DialogButton({
  label,
  className = "",
  isDisabled = false,
  title,
  description,
  onOpen,
  onClose,
  children,
}: {
  readonly label: ReactNode;
  readonly className?: string;
  readonly isDisabled?: boolean;
  readonly title: string;
  readonly description?: ReactNode;
  /** Called before it opens, and after it was closed. */
  readonly onOpen?: () => void;
  readonly onClose?: () => void;
  readonly children: (close: () => void) => ReactNode;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const open = (): void => {
    onOpen?.();
    setOpen(true);
  };
  const close = (): void => {
    setOpen(false);
    onClose?.();
  };
  return (
    <>
      <button type="button" className={className} disabled={isDisabled} onClick={open}>
        {label}
      </button>
      <Dialog title={title} description={description} isOpen={isOpen} onClose={close}>
        {children(close)}
      </Dialog>
    </>
  );
}

export function DialogForm({
  error,
  submit,
  cancel = texts.cancel,
  isDangerous = false,
  isDisabled,
  onSubmit,
  onClose,
  children,
}: {
  readonly error: unknown;
  readonly submit: string;
  readonly cancel?: string;
  readonly isDangerous?: boolean;
  readonly isDisabled: boolean;
  readonly onSubmit: () => void;
  readonly onClose: () => void;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <form
      className="dialog-form stack"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
      {error === undefined || error === null ? null : <Problem error={error} />}
      <div className="dialog-actions">
        <button type="button" onClick={onClose}>
          {cancel}
        </button>
        <button type="submit" className={isDangerous ? "danger" : "primary"} disabled={isDisabled}>
          {submit}
        </button>
      </div>
    </form>
  );
}

/** A button that asks before it does something. The dialog stays open while it is done, and shows why it has failed. */
export function ConfirmButton({
  label,
  title,
  description,
  confirm,
  isDangerous = false,
  isPlain = false,
  isDisabled = false,
  onConfirm,
}: {
  readonly label: ReactNode;
  readonly title: string;
  readonly description: ReactNode;
  readonly confirm: string;
  readonly isDangerous?: boolean;
  /** True to avoid the danger colours, which are too loud on many buttons of the same kind. */
  readonly isPlain?: boolean;
  readonly isDisabled?: boolean;
  readonly onConfirm: () => Promise<unknown>;
}): ReactNode {
  const { isBusy, error, run, reset } = useAction();
  return (
    <DialogButton
      label={label}
      className={isDangerous && !isPlain ? "danger" : ""}
      isDisabled={isDisabled}
      title={title}
      description={description}
      onClose={reset}
    >
      {(close) => (
        <>
          {error === undefined ? null : <Problem error={error} />}
          <div className="dialog-actions">
            <button type="button" onClick={close}>
              {texts.cancel}
            </button>
            <button
              type="button"
              className={isDangerous ? "danger" : "primary"}
              disabled={isBusy}
              onClick={() => void run(() => onConfirm().then(close))}
            >
              {confirm}
            </button>
          </div>
        </>
      )}
    </DialogButton>
  );
}
