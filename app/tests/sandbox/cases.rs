//! The attacks, one line each. They run as `sh -c` in a checkout of the project, with these words replaced:
//! `@HOME` the user's home, `@MAIN` their checkout, `@TMP` a directory of theirs in `/tmp`, `@PID` a process of theirs,
//! `@PORT` a service of theirs on loopback, `@NAME` an abstract socket of theirs.
//!
//! An attack has succeeded if it prints `SECRET` (which all of the user's secrets contain) or `ESCAPED`, if it changed
//! anything of the user's, or if their process is gone.

/// A sandbox that does not stop an attack, by its documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    ByBoth,
    /// docs/security.md says that Landlock does not stop it.
    ByBwrap,
}

pub struct Attack {
    pub name: &'static str,
    pub script: &'static str,
    pub stopped: Stopped,
    /// Without a sandbox it would harm the machine that runs the tests, or need what the machine may not have.
    pub only_confined: bool,
}

const fn attack(name: &'static str, script: &'static str) -> Attack {
    Attack { name, script, stopped: Stopped::ByBoth, only_confined: false }
}

const fn not_by_landlock(attack: Attack) -> Attack {
    Attack { stopped: Stopped::ByBwrap, ..attack }
}

const fn only_confined(attack: Attack) -> Attack {
    Attack { only_confined: true, ..attack }
}

pub const ATTACKS: &[Attack] = &[
    // Secrets of the user.
    attack("ssh key", "cat @HOME/.ssh/id_ed25519"),
    attack("gpg key", "cat @HOME/.gnupg/private-keys-v1.d/key"),
    attack("aws credentials", "cat @HOME/.aws/credentials"),
    attack("gcloud credentials", "cat @HOME/.config/gcloud/credentials.db"),
    attack("azure tokens", "cat @HOME/.azure/msal_token_cache.json"),
    attack("kubernetes configuration", "cat @HOME/.kube/config"),
    attack("docker login", "cat @HOME/.docker/config.json"),
    attack("netrc", "cat @HOME/.netrc"),
    attack("npm token", "cat @HOME/.npmrc"),
    attack("cargo token", "cat @HOME/.cargo/credentials.toml"),
    attack("pypi token", "cat @HOME/.pypirc"),
    attack("git credentials", "cat @HOME/.git-credentials"),
    attack("github login", "cat @HOME/.config/gh/hosts.yml"),
    attack("firefox profile", "cat @HOME/.mozilla/firefox/p/logins.json"),
    attack("chrome profile", "cat '@HOME/.config/google-chrome/Default/Login Data'"),
    attack("login of another agent", "cat @HOME/.codex/auth.json"),
    attack("claude login", "cat @HOME/.claude/.credentials.json"),
    attack("shell history", "cat @HOME/.bash_history"),
    attack(
        "keyrings",
        "perl -e 'my $n = qx(uname -m) =~ /aarch64/ ? 217 : 248; my ($t, $d, $p) = qw(user mahabharatha x); print q(ESCAPED) if syscall($n, $t, $d, $p, 1, -3) > 0'",
    ),
    attack("lease on a file", "perl -e 'open F, q(<), q(README.md); print q(ESCAPED) if fcntl(F, 1024, 1)'"),
    // Of the whole machine, if it is root who attacks. They set what is set anyway.
    only_confined(not_by_landlock(attack("permissions of a device", "chmod 666 /dev/full && echo ESCAPED"))),
    only_confined(not_by_landlock(attack("permissions in proc", "chmod 444 /proc/consoles && echo ESCAPED"))),
    attack("another project", "cat @HOME/other/secret.txt"),
    attack("file of the user in /tmp", "cat @TMP/secret.txt"),
    attack("link out of the worktree", "ln -s @HOME/.ssh link; cat link/id_ed25519"),
    attack("hard link into the worktree", "ln @HOME/.ssh/id_ed25519 hard && cat hard"),
    attack("through /proc/self/root", "cat /proc/self/root/@HOME/.ssh/id_ed25519"),
    attack("through the root of a process outside", "cat /proc/@PID/root/@HOME/.ssh/id_ed25519"),
    attack("through the directory of a process outside", "cat /proc/@PID/cwd/.ssh/id_ed25519"),
    attack("through an inherited descriptor", "cat /proc/self/fd/9/.ssh/id_ed25519"),
    only_confined(attack("through an inherited descriptor of the first process", "cat /proc/1/fd/9/.ssh/id_ed25519")),
    only_confined(attack("environment of the caller", "env; cat /proc/self/environ")),
    attack("environment of the first process", "cat /proc/1/environ; cat /proc/$PPID/environ"),
    attack("environment of a process outside", "cat /proc/@PID/environ"),
    attack(
        "memory of a process outside",
        "head -c 1 /proc/@PID/mem >/dev/null 2>&1; dd if=/proc/@PID/mem bs=1 count=1 \
            skip=$((0x$(head -1 /proc/@PID/maps | cut -d- -f1))) 2>/dev/null | grep -q . && echo ESCAPED",
    ),
    not_by_landlock(attack(
        "command line of a process outside",
        "tr '\\0' ' ' < /proc/@PID/cmdline | grep sleep && echo ESCAPED",
    )),
    attack(
        "key in the session keyring",
        "perl -e '($t, $d) = qw(user mbh); $id = syscall(249, $t, $d, 0, 0); \
            $b = \"\\0\" x 99; syscall(250, 11, $id, $b, 99); print $b'",
    ),
    // The run's state and the user's checkout.
    attack("journal", "cat @MAIN/.git/mahabharatha/x/events.jsonl"),
    attack("job spec of another task", "cat @MAIN/.git/mahabharatha/x/jobs/B.1/spec.json"),
    attack("another worktree", "cat @MAIN/.mahabharatha/worktrees/x/worker-1/b.txt"),
    attack("logs", "cat @MAIN/.mahabharatha/logs/x/tasks/B.jsonl"),
    attack("token in git's configuration", "cat @MAIN/.git/config; git config --list"),
    attack("uncommitted file of the user", "cat @MAIN/notes.txt"),
    // Writing what belongs to others.
    attack("shell start-up file", "echo evil >> @HOME/.bashrc"),
    attack("claude settings", "echo '{}' > @HOME/.claude/settings.json"),
    attack("ssh authorized keys", "echo evil >> @HOME/.ssh/authorized_keys"),
    attack("user's git configuration", "git config --file @HOME/.gitconfig core.hooksPath /tmp/evil"),
    attack("new file in the home", "mkdir -p @HOME/.config/autostart && echo evil > @HOME/.config/autostart/x.desktop"),
    attack("file moved out", "echo evil > e && mv e @HOME/e"),
    attack("hard link out", "echo evil > h && ln h @HOME/h"),
    attack("file of the user in /tmp changed", "echo evil > @TMP/secret.txt"),
    not_by_landlock(attack("permissions of a file outside", "chmod 777 @HOME/other/secret.txt")),
    not_by_landlock(attack("times of a file outside", "touch -d 2001-01-01 @HOME/other/secret.txt")),
    attack("checkout of the user", "cd @HOME/other && echo evil > secret.txt"),
    attack("journal appended", "echo '{}' >> @MAIN/.git/mahabharatha/x/events.jsonl"),
    attack("job spec rewritten", "echo '{}' > @MAIN/.git/mahabharatha/x/jobs/B.1/spec.json"),
    attack(
        "result forged",
        "mkdir -p @MAIN/.git/mahabharatha/x/jobs/B.1 && echo '{}' > @MAIN/.git/mahabharatha/x/jobs/B.1/result.json",
    ),
    attack("another worktree changed", "echo evil > @MAIN/.mahabharatha/worktrees/x/worker-1/b.txt"),
    attack("package cache poisoned", "echo evil >> @HOME/.cargo/registry/src/index/a-1.0.0/lib.rs"),
    attack("npm cache poisoned", "echo evil > @HOME/.npm/_cacache/index"),
    attack("toolchain replaced", "mkdir -p @HOME/.local/bin; echo evil > @HOME/.local/bin/cargo"),
    // Everything by which git runs something.
    attack(
        "hook planted",
        "printf '#!/bin/sh\\ntouch evil\\n' > @MAIN/.git/hooks/post-checkout; chmod +x @MAIN/.git/hooks/post-checkout",
    ),
    attack(
        "hook planted through git",
        "d=$(git rev-parse --git-common-dir); mkdir -p $d/hooks; echo evil > $d/hooks/pre-commit; \
            echo evil > @MAIN/.git/hooks/pre-commit",
    ),
    attack("git configuration planted", "git --git-dir=@MAIN/.git config core.fsmonitor /tmp/evil"),
    attack("worktree configuration planted", "echo '[core]' > @MAIN/.git/config.worktree"),
    attack("attributes planted", "mkdir -p @MAIN/.git/info; echo '* filter=evil' > @MAIN/.git/info/attributes"),
    attack("grafts planted", "mkdir -p @MAIN/.git/info; git rev-parse HEAD > @MAIN/.git/info/grafts"),
    attack("alternates planted", "echo /tmp/evil > @MAIN/.git/objects/info/alternates"),
    attack(
        "submodule configuration planted",
        "mkdir -p @MAIN/.git/modules/m && echo '[core]' > @MAIN/.git/modules/m/config",
    ),
    attack(
        "ref moved",
        "git --git-dir=@MAIN/.git update-ref refs/heads/victim $(git --git-dir=@MAIN/.git rev-parse main)",
    ),
    attack("ref made symbolic", "git --git-dir=@MAIN/.git symbolic-ref refs/mahabharatha/x/tasks/A refs/heads/victim"),
    attack("replace ref planted", "git --git-dir=@MAIN/.git replace -f HEAD HEAD~1"),
    attack("branch deleted", "git --git-dir=@MAIN/.git branch -D victim"),
    attack(
        "object overwritten",
        "IFS='\n'; for d in $(cat $(git rev-parse --git-path objects/info/alternates) 2>/dev/null) \
            @MAIN/.git/objects; do for f in $d/??/*; do rm -f $f; echo evil > $f; done; done",
    ),
    attack(
        "object forged in the repository",
        "cd @MAIN/.git/objects && mkdir -p 00 && echo evil > 00/00000000000000000000000000000000000000",
    ),
    attack(
        "worktree's link to its repository",
        "echo evil > @MAIN/.git/worktrees/evil; mkdir -p @MAIN/.git/worktrees/worker-1 && echo evil > @MAIN/.git/worktrees/worker-1/commondir",
    ),
    // Processes, sockets, kernel.
    attack("process outside killed", "kill -9 @PID; python3 -c 'import os; os.kill(@PID, 9)'"),
    attack("process outside stopped", "kill -STOP @PID && echo ESCAPED"),
    attack("limit of a process outside", "prlimit --pid @PID --nofile=99:99 && echo ESCAPED"),
    attack("priority of a process outside", "renice -n 9 -p @PID && echo ESCAPED"),
    attack("processors of a process outside", "taskset -p 1 @PID && echo ESCAPED"),
    // Without a sandbox they would change all processes of the user who runs the tests.
    only_confined(attack(
        "priority of all processes of the user",
        "perl -e '$b = getpriority(0, @PID); setpriority(2, 0, $b + 1); \
            print \"ESCAPED\" if getpriority(0, @PID) != $b'",
    )),
    only_confined(attack(
        "I/O priority of all processes of the user",
        "perl -e '($s, $g) = qx(uname -m) =~ /aarch64/ ? (30, 31) : (251, 252); $b = syscall($g, 1, @PID); \
            syscall($s, 3, 0, 16391); print \"ESCAPED\" if syscall($g, 1, @PID) != $b'",
    )),
    // Machine code of x86: setpriority(0, @PID, 5), then exit with its result. Not every kernel has 32-bit calls.
    only_confined(attack(
        "priority of a process outside by a 32-bit call",
        "perl -e 'require DynaLoader; $p = syscall(9, 0, 4096, 7, 34, -1, 0); pipe(R, W); \
            syswrite(W, $c = pack(\"H*\", \"b86100000031dbb9\" . unpack(\"H8\", pack(\"V\", @PID)) . \
                \"ba05000000cd8089c3b801000000cd80\")); \
            syscall(0, fileno(R), $p, length($c)); &{DynaLoader::dl_install_xsub(\"main::f\", $p)}()' && echo ESCAPED",
    )),
    attack("process outside traced", "perl -e 'syscall(101, 16, @PID, 0, 0) == 0 && print \"ESCAPED\"'"),
    attack(
        "abstract socket",
        "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); \
            connect(S, pack(\"S a*\", AF_UNIX, \"\\0@NAME\")) && print \"ESCAPED\"'",
    ),
    not_by_landlock(attack(
        "socket in the home",
        "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); \
            connect(S, sockaddr_un(\"@HOME/agent.sock\")) && print \"ESCAPED\"'",
    )),
    attack(
        "service on loopback, without network",
        "perl -e 'use Socket; socket(S, AF_INET, SOCK_STREAM, 0); \
            connect(S, sockaddr_in(@PORT, inet_aton(\"127.0.0.1\"))) && print \"ESCAPED\"'",
    ),
    only_confined(attack("kernel settings", "(: >> /proc/sys/kernel/core_pattern) && echo ESCAPED")),
    only_confined(attack(
        "capabilities",
        "grep -q '^CapEff:.*[1-9a-f]' /proc/self/status && ! grep -q '^NoNewPrivs:.1' /proc/self/status && echo ESCAPED",
    )),
    only_confined(attack("set-user-id programs", "grep -q '^NoNewPrivs:.1' /proc/self/status || echo ESCAPED")),
    only_confined(not_by_landlock(attack("mounts", "mount -t tmpfs tmpfs /tmp && echo ESCAPED"))),
    only_confined(not_by_landlock(attack("nested user namespace", "unshare -Ur true && echo ESCAPED"))),
    only_confined(attack("nested mounts", "unshare -Urm sh -c 'mount --bind @HOME /mnt && cat /mnt/.ssh/id_ed25519'")),
    only_confined(attack(
        "devices",
        "mknod disk b 8 0 && echo ESCAPED; ls /dev/vda /dev/sda 2>/dev/null && head -c 1 /dev/vda && echo ESCAPED",
    )),
    only_confined(attack("password hashes", "head -c 1 /etc/shadow | grep -q . && echo ESCAPED")),
    only_confined(attack("terminal of the caller", "(echo x > /dev/tty) 2>/dev/null && echo ESCAPED")),
];
