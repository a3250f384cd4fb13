/*
 * Where releases are published. package.json's `publishedAt` is the one place that says so: OWNER/NAME on GitHub, and empty until
 * the first release is out. Manifests, the chart, the pages for users and the release itself follow it:
 * `npm run version` writes what cannot read it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import manifest from '../package.json' with { type: 'json' };

/** OWNER/NAME; empty: nothing is published yet. */
export const publishedAt: string = manifest.publishedAt;

type ImageLine = readonly [file: string, before: string];

/** Files with the driver's image and its version, and the text before the image in its line. */
export const taggedImageLines: readonly ImageLine[] = [
  ['deploy/base/daemon-set.yaml', 'image: '],
  ['deploy/files/daemon-set.yaml', 'image: '],
  ['deploy/files/home.yaml', 'image: '],
  ['deploy/disks/daemon-set.yaml', 'image: '],
  ['deploy/disks/home.yaml', 'image: '],
  ['deploy/fleet/controller.yaml', 'image: '],
  ['deploy/examples/nomad/holdfast.nomad.hcl', 'default = "'],
];

/** The same, also where the version is elsewhere. */
export const imageLines: readonly ImageLine[] = [
  ...taggedImageLines,
  ['deploy/charts/holdfast/values.yaml', 'repository: '],
];

/** The driver's image, without a tag. */
export function imageRepository(at: string = publishedAt): string {
  return at === '' ? 'localhost/holdfast' : `ghcr.io/${ownerOf(at)}/holdfast`;
}

/** Directory of a release's files; without a version, of the newest release. */
export function releaseUrl(at: string, version?: string): string {
  const page = `https://github.com/${at}/releases`;
  return version === undefined ? `${page}/latest/download` : `${page}/download/v${version}`;
}

/** A page with blocks `<!-- release: NAME -->…<!-- /release -->`, for what is published. @throws Error for an unknown name */
export function withReleaseBlocks(text: string, at: string, version: string): string {
  return text.replaceAll(
    /(<!-- release: ([a-z ]+) -->\n).*?(?=<!-- \/release -->)/gs,
    (_, start: string, name: string) => {
      const block = blocks[name];
      if (block === undefined) throw new Error(`there is no block ${name}`);
      return `${start}${at === '' ? block.before : block.after({ at, version })}`;
    },
  );
}

/** A file with the image of what is published in its lines. */
export function withImage(text: string, before: string, at: string): string {
  const line = new RegExp(`^(\\s*${before})\\S+?/holdfast(?=[:"]|$)`, 'gm');
  return text.replaceAll(line, `$1${imageRepository(at)}`);
}

/** Pages with blocks. */
export const releasePages: readonly string[] = [
  'README.md',
  'docs/install.md',
  'docs/production.md',
  'docs/guides/upgrade.md',
];

interface Block {
  readonly before: string;
  readonly after: (release: { readonly at: string; readonly version: string }) => string;
}

const sh = (...lines: readonly string[]) => `\n\`\`\`sh\n${lines.join('\n')}\n\`\`\`\n`;
const namespace = [
  'kubectl create namespace holdfast-system',
  'kubectl label namespace holdfast-system pod-security.kubernetes.io/enforce=privileged',
];

const buildFirst = `**Build it first.** The first release is not out yet, so no registry has the image. On Debian, as root, one command builds it and
loads it into a cluster on this machine:
${sh('npm run image -- --load containerd    # or kind, k3s, microk8s, minikube; for a registry: --push registry.example.org')}`;

const blocks: Readonly<Record<string, Block>> = {
  install: {
    before: `${buildFirst}
Then install it. This is for one node or many, with Kubernetes 1.32 or newer:
${sh(
  'kubectl apply -k deploy',
  'kubectl apply -f deploy/examples/claim-and-pod.yaml',
  'kubectl get pvc,pod notes                        # the claim is Bound, the pod is Running',
)}
With Helm, the namespace comes first, because the driver's pods are privileged:
${sh(...namespace, 'helm install holdfast deploy/charts/holdfast --namespace holdfast-system')}
`,
    after: ({ at, version }) => `This is for one node or many, with Kubernetes 1.32 or newer:
${sh(
  `kubectl apply -f ${releaseUrl(at, version)}/install.yaml`,
  `kubectl apply -f https://raw.githubusercontent.com/${at}/v${version}/deploy/examples/claim-and-pod.yaml`,
  'kubectl get pvc,pod notes                        # the claim is Bound, the pod is Running',
)}
With Helm, the namespace comes first, because the driver's pods are privileged:
${sh(
  `helm repo add holdfast ${releaseUrl(at)}`,
  ...namespace,
  'helm install holdfast holdfast/holdfast --namespace holdfast-system',
)}
The pages write \`deploy/…\`, which is this project at version ${version}. \`holdfast/holdfast\` is the chart in \`deploy/charts/holdfast\`.

`,
  },
  image: {
    before: `${buildFirst}
`,
    after: ({ at, version }) =>
      `The image of this release is \`${imageRepository(at)}:${version}\`, for amd64 and arm64. Manifests and chart use it. To build it from source:
${sh('npm run image          # on Debian, as root: .cache/image/holdfast.tar, an OCI archive')}
`,
  },
  push: {
    before: `**Build it first.** The first release is not out yet, so no registry has the image. On Debian, as root, one command builds it and
pushes it to your registry:
${sh('npm run image -- --push registry.example.org')}
`,
    after: ({ at, version }) =>
      `The image of this release is \`${imageRepository(at)}:${version}\`. Leave \`image\` out of the values below, unless your nodes use another registry.

`,
  },
  apply: {
    before: `Bring the new image to the nodes, read CHANGELOG.md, then apply the manifests of the new version:
${sh('kubectl apply -k deploy')}
`,
    after: ({ at, version }) => `Read CHANGELOG.md, then apply the manifests of the new version:
${sh(`kubectl apply -f ${releaseUrl(at, version)}/install.yaml`)}
`,
  },
};

function ownerOf(at: string): string {
  return (at.split('/')[0] ?? '').toLowerCase();
}

/** Writes what follows `publishedAt` and the version. */
export function writePublished(version: string): void {
  const write = (file: string, change: (text: string) => string) => {
    const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
    writeFileSync(path, change(readFileSync(path, 'utf8')));
  };
  for (const [file, before] of imageLines) write(file, (text) => withImage(text, before, publishedAt));
  for (const file of releasePages) write(file, (text) => withReleaseBlocks(text, publishedAt, version));
}
