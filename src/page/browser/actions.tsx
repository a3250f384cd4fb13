import { useState } from 'preact/hooks';
import type { ChangeName } from '../messages.ts';
import { ask } from './client.ts';
import { bytesText, claimOr, nameText, numberOf, spanText } from './format.ts';
import { cancelOutcome, restoreOutcome, restoreSentence } from './outcome.ts';
import { Command, Modal } from './parts.tsx';
import type { Store } from './store.ts';
import type { Move, Node, Trashed } from './types.ts';

/** A change that somebody is about to make. */
export type Action =
  | { readonly change: 'restore' | 'purge'; readonly volume: Trashed }
  | { readonly change: 'cancel'; readonly move: Move; readonly title: string }
  | { readonly change: 'forget'; readonly node: Node };

interface Words {
  readonly title: string;
  readonly sentence: string;
  readonly command: string;
  readonly button: string;
  /** @returns the outcome */
  readonly run: () => Promise<string>;
}

/** Makes the change. @returns the answer of the command */
function change<T>(path: string, query: Readonly<Record<string, string>>): Promise<T> {
  return ask<T>(path, query, { method: 'POST' });
}

function wordsOf(action: Action, scope: 'fleet' | 'node', nowMs: number): Words {
  if (action.change === 'forget') {
    const { node, volumes } = action.node;
    return {
      title: `Forget node ${nameText(node)}?`,
      sentence: `Do this only if the node never comes back. Nothing waits for it any more: its volumes that were released are removed from Kubernetes, and its ${volumes} volumes are lost to their claims. The data on its disks is not touched. It takes 15 seconds, and is refused while the node has a link or its Node object is there.`,
      command: `kubectl holdfast forget-node ${node}`,
      button: 'Forget the node',
      run: async () => {
        await change('nodes/forget', { node });
        return `Node ${nameText(node)} is forgotten. Delete the claims that were bound to its volumes.`;
      },
    };
  }
  const where = (node: string) => (scope === 'fleet' ? ` --node ${node}` : '');
  const program = scope === 'fleet' ? 'kubectl holdfast' : 'holdfast';
  if (action.change === 'cancel') {
    const { from, fromNode, id, node, to, toNode } = action.move;
    const place = `pool ${nameText(from)} of node ${nameText(fromNode ?? node)}`;
    const copied =
      toNode !== undefined
        ? `node ${nameText(toNode)}`
        : `pool ${nameText(to)}${fromNode === undefined ? '' : ` of node ${nameText(node)}`}`;
    return {
      title: `Cancel the move of ${action.title}?`,
      sentence: `The volume stays in ${place}, with all that was written to it, and what was copied to ${copied} is removed. If the move has just ended, this is refused, and nothing changes.`,
      command: `${program} move cancel ${id}${where(node)}`,
      button: 'Cancel the move',
      run: async () => cancelOutcome(action.title, await change('moves/cancel', { node, volume: id })),
    };
  }
  const { volume } = action;
  const { id, node, pool, purgeAt, usedBytes } = volume;
  const name = claimOr(volume);
  const command = `${program} trash ${action.change} ${id}${where(node)}`;
  if (action.change === 'restore') {
    return {
      command,
      title: `Bring ${name} back?`,
      sentence: restoreSentence(volume),
      button: 'Bring back',
      run: async () => restoreOutcome(name, pool, await change('trash/restore', { node, volume: id })),
    };
  }
  return {
    command,
    title: `Purge ${name} now?`,
    sentence: `The data is removed for ever, and nobody can bring it back. This frees ${bytesText(numberOf(usedBytes))} in pool ${nameText(pool)} of node ${nameText(node)}. Left alone, it would go in ${spanText(Date.parse(purgeAt) - nowMs)}.`,
    button: 'Purge for ever',
    run: async () => {
      await change('trash/purge', { node, volume: id });
      return `${name} is gone for ever.`;
    },
  };
}

type Progress = 'asking' | 'working' | { readonly done: string } | { readonly failed: string };

/** Says what will happen and which command does the same, then does it. */
export function ActionDialog({ action, onClose, store }: { action: Action; onClose: () => void; store: Store }) {
  const [progress, setProgress] = useState<Progress>('asking');
  // As it was when it was opened: the list below goes on.
  const [words] = useState(() => wordsOf(action, store.hello?.scope ?? 'fleet', store.now()));
  const isFailed = typeof progress === 'object' && 'failed' in progress;
  const isDone = typeof progress === 'object' && 'done' in progress;
  const run = async () => {
    setProgress('working');
    try {
      setProgress({ done: await words.run() });
    } catch (error) {
      setProgress({ failed: error instanceof Error ? error.message : 'It has failed.' });
    }
  };
  return (
    <Modal title={words.title} onClose={onClose}>
      <p>{words.sentence}</p>
      <p class="label">The command that does the same:</p>
      <Command>{words.command}</Command>
      <p role="status" class={isFailed ? 'outcome bad' : 'outcome'}>
        {progress === 'working' ? 'Working …' : isDone ? progress.done : isFailed ? nameText(progress.failed) : ''}
      </p>
      <form method="dialog" class="buttons">
        <button type="submit">
          {isDone || isFailed ? 'Close' : action.change === 'cancel' ? 'Let it go on' : 'Cancel'}
        </button>
        {isDone ? null : (
          <button
            type="button"
            class={action.change === 'restore' ? 'primary' : 'danger'}
            disabled={progress === 'working'}
            onClick={() => void run()}
          >
            {isFailed ? 'Try again' : words.button}
          </button>
        )}
      </form>
    </Modal>
  );
}

/** What a viewer lacks for a change; undefined: nothing. */
export function lackFor(store: Store, change: ChangeName): string | undefined {
  if (store.hello?.may.includes(change) === true) return undefined;
  return 'You may look, and not change anything: for that you need the Role holdfast-operator.';
}
