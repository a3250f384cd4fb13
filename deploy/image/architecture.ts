/** What an image is for, in the words of OCI and Debian. */
export const architectures = ['amd64', 'arm64'] as const;
export type Architecture = (typeof architectures)[number];

interface Names {
  /** Node's, koffi's and npm's word. */
  readonly npm: string;
  /** Where Debian has its libraries (multiarch). */
  readonly triplet: string;
}

const names: Readonly<Record<Architecture, Names>> = {
  amd64: { npm: 'x64', triplet: 'x86_64-linux-gnu' },
  arm64: { npm: 'arm64', triplet: 'aarch64-linux-gnu' },
};

export function namesOf(architecture: Architecture): Names {
  return names[architecture];
}

/** The architecture of this machine. @throws Error if there is no image for it */
export function ownArchitecture(): Architecture {
  const own = architectures.find((each) => names[each].npm === process.arch);
  if (own === undefined)
    throw new Error(`no image can be made for ${process.arch}: name one of ${architectures.join(', ')}`);
  return own;
}

export function parseArchitecture(text: string): Architecture {
  const found = architectures.find((each) => each === text);
  if (found === undefined) throw new Error(`--architecture ${text}: it is one of ${architectures.join(', ')}`);
  return found;
}
