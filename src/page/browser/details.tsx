import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { poolChip, volumeChip } from './chips.tsx';
import { ask } from './client.ts';
import { bytesText, claimOr, contentOf, nameText, numberOf, percentText, spanText } from './format.ts';
import { Bar, Command, History, Legend, Name } from './parts.tsx';
import { filterBy, linkTo } from './route.ts';
import { spaceOf, trashBytes } from './space.ts';
import type { Store } from './store.ts';
import type { Holders, Pool, Volume, Who } from './types.ts';

type Fact = readonly [title: string, value: ComponentChildren];

function Facts({ facts }: { facts: readonly (Fact | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map((fact) =>
        fact === undefined ? null : (
          <div key={fact[0]}>
            <dt>{fact[0]}</dt>
            <dd>{fact[1]}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

/** All that is known of one volume or pool, beside the list. */
export function Details({ open, store, view }: { open: string; store: Store; view: string }) {
  const panel = useRef<HTMLElement>(null);
  const volume = view === 'volumes' ? store.tables.volumes.get(open) : undefined;
  const pool = view === 'volumes' ? undefined : store.tables.pools.get(open);
  useEffect(() => {
    panel.current?.focus();
  }, [open]);
  const close = () => filterBy({ open: '' });
  const title =
    volume !== undefined
      ? claimOr(volume)
      : pool !== undefined
        ? `${nameText(pool.node)} / ${nameText(pool.name)}`
        : 'Gone';
  return (
    <aside
      ref={panel}
      class="details"
      tabIndex={-1}
      aria-label={`Details of ${title}`}
      onKeyDown={(event) => {
        if (event.key === 'Escape') close();
      }}
    >
      <header>
        <h2>
          <bdi>{title}</bdi>
        </h2>
        <button type="button" class="quiet" aria-label="Close the details" onClick={close}>
          ✕
        </button>
      </header>
      {volume !== undefined ? <VolumeDetails volume={volume} store={store} /> : null}
      {pool !== undefined ? <PoolDetails open={open} pool={pool} store={store} /> : null}
      {volume === undefined && pool === undefined ? <p>It is not in the list any more.</p> : null}
    </aside>
  );
}

function PoolDetails({ open, pool, store }: { open: string; pool: Pool; store: Store }) {
  const space = spaceOf(pool, trashBytes(store.tables.trash.values()).get(open) ?? 0);
  const { advice, damaged = [], disk, labels, traits } = pool;
  return (
    <>
      {advice === undefined ? null : <p class="notice">{nameText(advice)}</p>}
      {space === undefined ? null : (
        <>
          <Bar space={space} large />
          <Legend space={space} />
          <p class="label">How full it was since the page was opened</p>
          <History moments={store.history.get(open) ?? []} />
        </>
      )}
      <Facts
        facts={[
          ['Health', poolChip(pool)],
          ['Kind', pool.kind],
          ['Where', <Name key="w" mono>{`${pool.location.type} ${pool.location.path}`}</Name>],
          pool.default ? ['Default', 'of its node'] : undefined,
          [
            'Volumes',
            <a key="v" {...linkTo({ view: 'volumes', node: pool.node, pool: pool.name })}>
              {pool.volumes ?? '–'}
            </a>,
          ],
          space === undefined
            ? undefined
            : [
                'Provisioned',
                `${bytesText(space.provisioned)} of ${bytesText(space.total)} (${percentText(space.provisioned, space.total)})`,
              ],
          disk?.metadata === undefined
            ? undefined
            : [
                'Metadata',
                `${percentText(numberOf(disk.metadata.usedBytes), numberOf(disk.metadata.totalBytes))} of ${bytesText(numberOf(disk.metadata.totalBytes))}`,
              ],
          traits?.snapshots === undefined ? undefined : ['Snapshots', traits.snapshots],
          Object.keys(labels).length === 0
            ? undefined
            : ['Labels', Object.entries(labels).map(([key, value]) => <Name key={key}>{`${key}=${value}`}</Name>)],
          damaged.length === 0
            ? undefined
            : ['Damaged', damaged.map(({ id, reason }) => <p key={id}>{nameText(`${id}: ${reason}`)}</p>)],
        ]}
      />
    </>
  );
}

function VolumeDetails({ store, volume }: { store: Store; volume: Volume }) {
  const {
    accessModes,
    claim,
    createdAt,
    devices,
    encryption,
    id,
    name,
    node,
    pool,
    provisioning,
    publishedAt,
    sizeBytes,
  } = volume;
  const { adopted, condition, publication, snapshots, source, stagedAt, undeleteSeconds, usedBytes } = volume;
  const parameters = { ...volume.parameters, ...volume.mutableParameters };
  const isFleet = store.hello?.scope === 'fleet';
  const now = store.now();
  return (
    <>
      {condition === undefined ? null : <p class="notice">{nameText(condition)}</p>}
      <Facts
        facts={[
          ['State', volumeChip(volume)],
          [
            'Id',
            <Name key="i" mono>
              {id}
            </Name>,
          ],
          ['Name', <Name key="n">{name}</Name>],
          claim === undefined ? undefined : ['Claim', <Name key="c">{`${claim.namespace}/${claim.name}`}</Name>],
          [
            'Node',
            <a key="o" {...linkTo({ view: 'nodes', q: node })}>
              <Name>{node}</Name>
            </a>,
          ],
          [
            'Pool',
            <a key="p" {...linkTo({ view: 'pools', q: node, open: `${node}/${pool}` })}>
              <Name>{pool}</Name>
            </a>,
          ],
          ['Size', `${bytesText(numberOf(sizeBytes))}, ${provisioning}`],
          usedBytes === undefined
            ? undefined
            : ['Used', `${bytesText(numberOf(usedBytes))} (${percentText(numberOf(usedBytes), numberOf(sizeBytes))})`],
          ['Content', contentOf(volume)],
          encryption === undefined
            ? undefined
            : ['Encryption', `${encryption.type}, opens with ${nameText(encryption.keyId)}`],
          ['Access', accessModes.map((mode) => mode.toLowerCase().replaceAll('_', ' ')).join(', ')],
          ['Created', `${spanText(now - Date.parse(createdAt))} ago, ${createdAt}`],
          source === undefined ? undefined : ['Made from', <Name key="s" mono>{`${source.type} ${source.id}`}</Name>],
          adopted === undefined
            ? undefined
            : [
                'Adopted from',
                <Name key="a" mono>
                  {adopted.path}
                </Name>,
              ],
          [
            'If deleted',
            undeleteSeconds === 0 ? 'gone at once' : `kept in the trash for ${spanText(1000 * undeleteSeconds)}`,
          ],
          publication === undefined ? undefined : ['Published to', <Name key="u">{publication.nodeId}</Name>],
          devices.length === 0
            ? undefined
            : [
                'Device',
                devices.map(({ path, readonly }) => (
                  <Name key={path} mono>{`${path}${readonly ? ' (read-only)' : ''}`}</Name>
                )),
              ],
          stagedAt.length === 0
            ? undefined
            : [
                'Staged at',
                stagedAt.map((path) => (
                  <Name key={path} mono>
                    {path}
                  </Name>
                )),
              ],
          publishedAt.length === 0
            ? undefined
            : [
                'Published at',
                publishedAt.map(({ path }) => (
                  <Name key={path} mono>
                    {path}
                  </Name>
                )),
              ],
          Object.keys(parameters).length === 0
            ? undefined
            : [
                'Parameters',
                Object.entries(parameters).map(([key, value]) => <Name key={key}>{`${key}=${value}`}</Name>),
              ],
        ]}
      />
      {store.hello?.lists.includes('who') === true ? <Holding key={id} id={id} node={node} /> : null}
      <h3>Snapshots</h3>
      {snapshots.length === 0 ? (
        <p class="unknown">None.</p>
      ) : (
        <ul class="plain">
          {snapshots.map((snapshot) => (
            <li key={snapshot.id}>
              <Name>{snapshot.name}</Name>{' '}
              <span class="unknown">{spanText(now - Date.parse(snapshot.createdAt))} ago</span>
            </li>
          ))}
        </ul>
      )}
      <h3>To look closer</h3>
      <Command>{isFleet ? `kubectl holdfast volumes ${id}` : `holdfast volumes ${id}`}</Command>
    </>
  );
}

type Asked =
  | { readonly is: 'asking' }
  | { readonly is: 'failed'; readonly message: string }
  | { readonly is: 'there'; readonly found: readonly Holders[] };

/** Who holds a volume: asked when its details are opened. */
function Holding({ id, node }: { id: string; node: string }) {
  const [asked, setAsked] = useState<Asked>({ is: 'asking' });
  useEffect(() => {
    const closed = new AbortController();
    const { signal } = closed;
    ask<Who>('who', { volume: id, node }, { signal }).then(
      ({ volumes }) => setAsked({ is: 'there', found: volumes }),
      (error: unknown) =>
        signal.aborted || setAsked({ is: 'failed', message: error instanceof Error ? error.message : '' }),
    );
    return () => closed.abort();
  }, [id, node]);
  const holders = asked.is === 'there' ? asked.found.flatMap((each) => each.holders) : [];
  return (
    <section aria-live="polite">
      <h3>Who holds it</h3>
      {asked.is === 'asking' ? <p class="unknown">Asking its node …</p> : null}
      {asked.is === 'failed' ? <p class="unknown">{nameText(asked.message)}</p> : null}
      {asked.is === 'there' && holders.length === 0 ? <p class="unknown">Nothing holds it.</p> : null}
      <ul class="plain">
        {holders.slice(0, 200).map((holder) => (
          <li key={`${holder.kind} ${holder.path} ${holder.kind === 'process' ? holder.pid : ''}`}>
            <span class="unknown">
              {holder.kind === 'process' ? `${nameText(holder.command)} (${holder.pid})` : holder.kind}
            </span>{' '}
            <Name mono>{holder.path}</Name>
          </li>
        ))}
      </ul>
    </section>
  );
}
