import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Action, ActionDialog } from './actions.tsx';
import { follow, hasSecret, takeSecret } from './client.ts';
import { Details } from './details.tsx';
import { nameText, spanText } from './format.ts';
import { DisksView } from './lists/disks.tsx';
import { Moves } from './lists/moves.tsx';
import { Nodes } from './lists/nodes.tsx';
import { Pools } from './lists/pools.tsx';
import { Snapshots } from './lists/snapshots.tsx';
import { Trash } from './lists/trash.tsx';
import { Volumes } from './lists/volumes.tsx';
import { Overview } from './overview.tsx';
import { Command } from './parts.tsx';
import { linkTo, useRoute } from './route.ts';
import { Store } from './store.ts';
import { chooseTheme, ThemeSwitch } from './theme.tsx';
import { useStore } from './use-store.ts';

const views = [
  ['overview', 'Overview'],
  ['nodes', 'Nodes'],
  ['pools', 'Pools'],
  ['volumes', 'Volumes'],
  ['snapshots', 'Snapshots'],
  ['trash', 'Trash'],
  ['moves', 'Moves'],
  ['disks', 'Disks'],
] as const;
type ViewName = (typeof views)[number][0];

/** Ages are drawn again so often. */
const clockMs = 10_000;

function Page({ store }: { store: Store }) {
  useStore(store);
  const route = useRoute();
  const [action, setAction] = useState<Action | undefined>();
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), clockMs);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === '/' && !isTyping && document.querySelector('dialog[open]') === null) {
        event.preventDefault();
        document.querySelector<HTMLElement>('#search')?.focus();
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);

  const { connection, hello } = store;
  if (connection.is === 'refused') return <Refused message={connection.message} scope={hello?.scope} />;
  const shown = views.filter(([name]) => {
    if (name === 'overview') return true;
    if (name === 'nodes' && hello?.scope === 'node') return false;
    return hello?.lists.includes(name) === true;
  });
  const view: ViewName = shown.find(([name]) => name === route['view'])?.[0] ?? 'overview';
  const title = views.find(([name]) => name === view)?.[1] ?? '';
  document.title = `${title} · Holdfast`;
  const open = route['open'] ?? '';
  const hasDetails = open !== '' && ['overview', 'pools', 'volumes'].includes(view);
  const props = { store, route };
  return (
    <>
      <a class="skip" href="#main">
        To the list
      </a>
      <header class="top">
        <a class="brand" {...linkTo({})}>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d="M9 7v18M23 7v18M9 16h14" />
          </svg>
          <span>Holdfast</span>
        </a>
        <nav aria-label="Views">
          {shown.map(([name, words]) => (
            <a
              key={name}
              {...linkTo(name === 'overview' ? {} : { view: name })}
              aria-current={name === view ? 'page' : undefined}
            >
              {words}
            </a>
          ))}
        </nav>
        <Connection store={store} />
        <ThemeSwitch />
      </header>
      <main id="main" class={hasDetails ? `with-details ${view}` : view}>
        <h1 class="unseen">{title}</h1>
        <div class="content">
          {hello === undefined ? (
            <p class="boot">Connecting …</p>
          ) : view === 'overview' ? (
            <Overview {...props} />
          ) : view === 'nodes' ? (
            <Nodes {...props} act={setAction} />
          ) : view === 'pools' ? (
            <Pools {...props} />
          ) : view === 'volumes' ? (
            <Volumes {...props} />
          ) : view === 'snapshots' ? (
            <Snapshots {...props} />
          ) : view === 'trash' ? (
            <Trash {...props} act={setAction} />
          ) : view === 'moves' ? (
            <Moves {...props} act={setAction} />
          ) : (
            <DisksView {...props} />
          )}
        </div>
        {hasDetails ? <Details open={open} store={store} view={view} /> : null}
      </main>
      {action === undefined ? null : (
        <ActionDialog action={action} store={store} onClose={() => setAction(undefined)} />
      )}
    </>
  );
}

function Connection({ store }: { store: Store }) {
  const { connection, hello } = store;
  const words = {
    connecting: 'connecting',
    live: 'live',
    paused: 'paused',
    lost:
      connection.is === 'lost' ? `connection lost ${spanText(Date.now() - connection.since)} ago, trying again` : '',
    refused: 'ended',
  }[connection.is];
  return (
    <p
      class={`connection ${connection.is}`}
      role="status"
      title={hello === undefined ? '' : `${hello.driver} ${hello.version}`}
    >
      <span class="dot" aria-hidden="true" />
      <span>{words}</span>
    </p>
  );
}

function Refused({ message, scope }: { message: string; scope: 'fleet' | 'node' | undefined }) {
  return (
    <main class="refused">
      <h1>This page cannot show anything</h1>
      <p>{nameText(message)}</p>
      <p>
        The address that opens the page has a secret, which is only in the memory of a tab: another tab, or this one
        after it was loaded again, has none. Ask for a new address:
      </p>
      {scope === 'node' ? null : <Command>kubectl holdfast ui</Command>}
      {scope === 'fleet' ? null : (
        <>
          <p>or, on one node as root:</p>
          <Command>holdfast ui</Command>
        </>
      )}
    </main>
  );
}

async function start(): Promise<void> {
  chooseTheme();
  const store = new Store((tell) => requestAnimationFrame(tell));
  const box = document.querySelector('#page');
  if (box === null) return;
  box.replaceChildren();
  try {
    await takeSecret();
    if (hasSecret()) follow(store);
    else store.is({ is: 'refused', message: 'There is no secret in the address.' });
  } catch (error) {
    store.is({ is: 'refused', message: error instanceof Error ? error.message : 'The server does not answer.' });
  }
  render(<Page store={store} />, box);
}

void start();
