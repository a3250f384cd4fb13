import type { Argument, Command, Option } from 'commander';

/*
 * The knowledge that a shell needs to complete our commands, made from the commands. Volumes are not completed: to
 * look for them takes root, and a disk that hangs would hold up the prompt.
 */

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: the shells' own
/** The text that each shell sources, by the shell's name. */
export const shells: Readonly<Record<'bash' | 'zsh' | 'fish', (program: Command) => string>> = {
  bash: (program) =>
    posixScript(nodesOf(program), {
      head: '',
      previous: '"${COMP_WORDS[COMP_CWORD-1]}"',
      typed: '"${COMP_WORDS[@]:1:COMP_CWORD-1}"',
      offer: 'COMPREPLY=($(compgen -W "$offers" -- "${COMP_WORDS[COMP_CWORD]}"))',
      register: 'complete -o default -F _holdfast holdfast',
    }),
  zsh: (program) =>
    posixScript(nodesOf(program), {
      head: '#compdef holdfast\n',
      previous: '"${words[CURRENT-1]}"',
      typed: '"${(@)words[2,CURRENT-1]}"',
      offer: 'compadd -- ${=offers}',
      register: 'compdef _holdfast holdfast',
    }),
  fish: (program) => fishScript(nodesOf(program)),
};
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: the shells' own

/** A command as a shell sees it. */
interface Node {
  /** The words that lead there: `trash restore`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly Command[];
  readonly options: readonly Option[];
  readonly argument: Argument | undefined;
}

function nodesOf(command: Command, path = ''): Node[] {
  const help = command.createHelp();
  const commands = [...help.visibleCommands(command)];
  const below = commands
    .filter((each) => command.commands.includes(each))
    .flatMap((each) => nodesOf(each, `${path} ${each.name()}`.trim()));
  return [
    { path, commands, options: help.visibleOptions(command), argument: command.registeredArguments[0] },
    ...below,
  ];
}

/** Where bash and zsh differ. */
interface Dialect {
  readonly head: string;
  readonly previous: string;
  /** The words between the program's name and the one that is being typed. */
  readonly typed: string;
  readonly offer: string;
  readonly register: string;
}

function posixScript(nodes: readonly Node[], { head, offer, previous, register, typed }: Dialect): string {
  const paths = nodes.filter(({ path }) => path !== '').map(({ path }) => `'${path.includes(' ') ? '' : ' '}${path}'`);
  const values = nodes.flatMap(({ path, options }) =>
    options
      .filter(takesValue)
      .map(({ argChoices, long }) => `    '${path} ${long}') offers='${(argChoices ?? []).join(' ')}' ;;`),
  );
  const offers = nodes.map((node) => `      '${node.path}') offers='${offersOf(node).join(' ')}' ;;`);
  return `${head}_holdfast() {
  local line='' word offers='' previous=${previous}
  for word in ${typed}; do
    case "$line $word" in
      ${paths.join('|')}) line="\${line:+$line }$word" ;;
    esac
  done
  case "$line $previous" in
${values.join('\n')}
    *) case "$line" in
${offers.join('\n')}
    esac ;;
  esac
  ${offer}
}
${register}`;
}

function offersOf({ argument, commands, options }: Node): string[] {
  return [
    ...commands.map((command) => command.name()),
    ...(argument?.argChoices ?? []),
    ...options.flatMap(({ long }) => long ?? []),
  ];
}

function takesValue({ optional, required }: Option): boolean {
  return optional || required;
}

function fishScript(nodes: readonly Node[]): string {
  const lines = nodes.flatMap(({ argument, commands, options, path }) => {
    const names = commands.map((command) => command.name());
    const seen = `__fish_seen_subcommand_from ${path.split(' ').at(-1)}`;
    const condition = path === '' ? '__fish_use_subcommand' : seen;
    const beforeNext =
      names.length === 0 ? condition : `${condition}; and not __fish_seen_subcommand_from ${names.join(' ')}`;
    return [
      ...commands.map((each) =>
        fishLine(path === '' ? condition : beforeNext, `-a ${each.name()}`, each.description()),
      ),
      ...(argument?.argChoices === undefined
        ? []
        : [fishLine(condition, `-a '${argument.argChoices.join(' ')}'`, argument.description)]),
      ...options.map((option) => {
        const value = takesValue(option) ? ` -x -a '${(option.argChoices ?? []).join(' ')}'` : '';
        return fishLine(condition, `-l ${option.long?.slice(2)}${value}`, option.description);
      }),
    ];
  });
  return ['complete -c holdfast -f', ...lines].join('\n');
}

function fishLine(condition: string, what: string, description: string): string {
  return `complete -c holdfast -n '${condition}' ${what} -d '${description.replaceAll("'", "\\'")}'`;
}
