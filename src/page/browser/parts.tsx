import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { bytesText, nameText, percentText } from './format.ts';
import { fullness, partNames, type Space, type SpacePart, spaceParts } from './space.ts';
import type { Moment } from './store.ts';

/** Text that others chose: it never reorders what stands beside it. */
export function Name({ children, mono = false }: { children: string; mono?: boolean }) {
  const text = nameText(children);
  return (
    <bdi class={mono ? 'name mono' : 'name'} title={text}>
      {text}
    </bdi>
  );
}

export function Chip({
  kind,
  children,
}: {
  kind: 'good' | 'bad' | 'warn' | 'quiet' | 'busy';
  children: ComponentChildren;
}) {
  return <span class={`chip ${kind}`}>{children}</span>;
}

function wordsOf(space: Space): string {
  const parts = spaceParts
    .filter((part) => space[part] > 0)
    .map((part) => `${bytesText(space[part])} ${partNames[part]}`);
  return `${percentText(fullness(space), 1)} of ${bytesText(space.disk)} full: ${parts.join(', ')}`;
}

/** The parts of a disk, and a mark where all provisioned volumes would fill it. */
export function Bar({ space, large = false }: { space: Space | undefined; large?: boolean }) {
  if (space === undefined) return <span class="unknown">not known</span>;
  let left = 0;
  const parts = spaceParts
    .filter((part) => part !== 'free' && space[part] > 0)
    .map((part) => {
      const width = (100 * space[part]) / space.disk;
      const place = { part, left, width };
      left += width;
      return place;
    });
  return (
    <span class={large ? 'bar large' : 'bar'} role="img" aria-label={wordsOf(space)} title={wordsOf(space)}>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(({ left: from, part, width }) => (
          <rect key={part} class={`part-${part}`} x={from} y="0" width={width} height="10" />
        ))}
      </svg>
    </span>
  );
}

export function Legend({ space }: { space: Space }) {
  return (
    <dl class="legend">
      {spaceParts.map((part: SpacePart) => (
        <div key={part}>
          <dt>
            <span class={`swatch part-${part}`} aria-hidden="true" />
            {partNames[part]}
          </dt>
          <dd>{bytesText(space[part])}</dd>
        </div>
      ))}
    </dl>
  );
}

/** How full a pool was since the page was opened. */
export function History({ moments }: { moments: readonly Moment[] }) {
  const [first, last] = [moments[0], moments.at(-1)];
  if (first === undefined || last === undefined) return <span class="unknown">–</span>;
  const span = Math.max(1, last.atMs - first.atMs);
  const points = moments.map(
    ({ atMs, full }) => `${((100 * (atMs - first.atMs)) / span).toFixed(2)},${(20 - 20 * full).toFixed(2)}`,
  );
  const line = moments.length === 1 ? `0,${20 - 20 * first.full} 100,${20 - 20 * first.full}` : points.join(' ');
  const change = last.full - first.full;
  const words = `${percentText(first.full, 1)} full when the page was opened, ${percentText(last.full, 1)} now`;
  return (
    <span class="history" role="img" aria-label={words} title={words}>
      <svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
        <polyline points={line} />
      </svg>
      <span class="change" aria-hidden="true">
        {Math.abs(change) < 0.001 ? '±0' : `${change > 0 ? '+' : '−'}${(100 * Math.abs(change)).toFixed(1)}`} %
      </span>
    </span>
  );
}

/** A command to type, which can be copied. */
export function Command({ children }: { children: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <div class="command">
      <code>{children}</code>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          void navigator.clipboard?.writeText(children).then(() => setCopied(true));
        }}
      >
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  );
}

/** A window above the page: the rest waits until it is closed. */
export function Modal({
  title,
  children,
  onClose,
}: {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={onClose}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}
