import { images } from './images.ts';

/** A Kubernetes object, as it is sent. */
export type Manifest = { readonly kind: string; readonly metadata: Readonly<Record<string, unknown>> } & Readonly<
  Record<string, unknown>
>;

/** What a claim asks for; whatever is left out is usual. */
export interface ClaimPlan {
  readonly storageClass?: string;
  readonly size?: string;
  readonly accessMode?: 'ReadWriteOnce' | 'ReadWriteOncePod' | 'ReadOnlyMany' | 'ReadWriteMany';
  readonly volumeMode?: 'Filesystem' | 'Block';
  readonly dataSource?: { readonly kind: string; readonly name: string; readonly apiGroup?: string };
  readonly volumeName?: string;
  readonly attributesClass?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** A claim. */
export function claim(name: string, plan: ClaimPlan = {}): Manifest {
  const { labels = {} } = plan;
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, labels }, spec: claimSpec(plan) };
}

/** The inner part of a claim, as templates of claims have it too. */
export function claimSpec(plan: ClaimPlan): Readonly<Record<string, unknown>> {
  return {
    storageClassName: plan.storageClass ?? 'holdfast',
    accessModes: [plan.accessMode ?? 'ReadWriteOnce'],
    volumeMode: plan.volumeMode ?? 'Filesystem',
    resources: { requests: { storage: plan.size ?? '300Mi' } },
    ...(plan.dataSource !== undefined && { dataSource: plan.dataSource }),
    ...(plan.volumeName !== undefined && { volumeName: plan.volumeName }),
    ...(plan.attributesClass !== undefined && { volumeAttributesClassName: plan.attributesClass }),
  };
}

/** Where a volume of a pod comes from, and how the container sees it. */
export interface VolumePlan {
  /** As in a pod's `volumes`; a text is a claim's name. */
  readonly source: string | Readonly<Record<string, unknown>>;
  readonly readOnly?: boolean;
  readonly subPath?: string;
  /** As the device /dev/<name> and not as the directory /<name>. */
  readonly block?: boolean;
}

/** What a pod does; whatever is left out is usual. */
export interface PodPlan {
  readonly volumes?: Readonly<Record<string, VolumePlan | string>>;
  /** Runs before the pod waits to be ended. */
  readonly script?: string;
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly labels?: Readonly<Record<string, string>>;
  /** The node that it is to run on; any if it has none. */
  readonly node?: string;
}

/** A pod of one container `main`, with its volumes at /<name>, which ends when it is told to. */
export function pod(name: string, plan: PodPlan = {}): Manifest {
  const { labels = {} } = plan;
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec: podSpec(plan) };
}

/** The pods of a StatefulSet; whatever is left out is usual. */
export interface SetPlan {
  /** The claims of each pod, which sees them as volumes of their names. */
  readonly claims: Readonly<Record<string, ClaimPlan>>;
  readonly replicas?: number;
  /** Pods are started and ended at the same time. */
  readonly isParallel?: boolean;
  /** Runs before a pod waits to be ended. */
  readonly script: string;
}

/** A StatefulSet. */
export function statefulSet(name: string, { claims, isParallel = false, replicas = 1, script }: SetPlan): Manifest {
  const labels = { app: name };
  const plans = Object.entries(claims);
  const volumes = Object.fromEntries(
    plans.map(([claimName, { volumeMode }]) => [claimName, { source: {}, block: volumeMode === 'Block' }]),
  );
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name },
    spec: {
      replicas,
      ...(isParallel && { podManagementPolicy: 'Parallel' }),
      selector: { matchLabels: labels },
      // A volume of the template is called as its claim.
      template: { metadata: { labels }, spec: podSpec({ volumes, script }) },
      volumeClaimTemplates: plans.map(([claimName, plan]) => ({
        metadata: { name: claimName },
        spec: claimSpec(plan),
      })),
    },
  };
}

/** The inner part of a pod, as templates of pods have it too. */
export function podSpec({
  volumes = {},
  script = '',
  securityContext = {},
  node,
}: PodPlan): Readonly<Record<string, unknown>> {
  const mounts = Object.entries(volumes).map(([name, value]) => ({ name, ...asVolume(value) }));
  return {
    terminationGracePeriodSeconds: 2,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    securityContext,
    ...(node !== undefined && { nodeSelector: { 'kubernetes.io/hostname': node } }),
    containers: [
      {
        name: 'main',
        image: images.busybox,
        imagePullPolicy: 'Never',
        command: ['sh', '-c', `set -e\n${script}\ntrap 'exit 0' TERM\nsleep 2147483647 & wait`],
        volumeMounts: mounts
          .filter(({ block }) => block !== true)
          .map(({ name, readOnly = false, subPath }) => ({ name, mountPath: `/${name}`, readOnly, subPath })),
        volumeDevices: mounts
          .filter(({ block }) => block === true)
          .map(({ name }) => ({ name, devicePath: `/dev/${name}` })),
      },
    ],
    volumes: mounts.map(({ name, source }) => ({
      name,
      ...(typeof source === 'string' ? { persistentVolumeClaim: { claimName: source } } : source),
    })),
  };
}

function asVolume(value: VolumePlan | string): VolumePlan {
  return typeof value === 'string' ? { source: value } : value;
}

/** A snapshot of a claim's volume. */
export function snapshot(name: string, claimName: string, className = 'holdfast'): Manifest {
  return {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: { name },
    spec: { volumeSnapshotClassName: className, source: { persistentVolumeClaimName: claimName } },
  };
}

/** As the source of a claim. */
export function fromSnapshot(name: string): NonNullable<ClaimPlan['dataSource']> {
  return { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name };
}

/** As the source of a claim. */
export function fromClaim(name: string): NonNullable<ClaimPlan['dataSource']> {
  return { kind: 'PersistentVolumeClaim', name };
}
