"""User data for tests of the emulated cloud: scripts with and without an MPS daemon, alone and as archives."""

from base64 import b64encode

PIPES = "/run/pipes"
INSTALLS = f"""#!/bin/sh
cat >/etc/systemd/system/mps.service <<END
[Service]
Environment=CUDA_MPS_PIPE_DIRECTORY={PIPES}
ExecStart=/usr/bin/nvidia-cuda-mps-control -f
END
systemctl enable --now mps.service
"""
"""A script that installs a daemon of its own, with another directory than the program's."""
GREETS = "#!/bin/sh\necho hello\n"


def archive(*parts: str, kind: str = "x-shellscript", headers: str = "") -> str:
    """A MIME archive of texts, as the EKS user guide has it (launch-templates.html, `launch-template-user-data`)."""
    found = [f'--==B==\nContent-Type: text/{kind}; charset="us-ascii"\n{headers}\n{part}\n' for part in parts]
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="==B=="\n\n{"".join(found)}--==B==--\n'


ARCHIVE = archive(GREETS)


def in_base64(text: str) -> str:
    """The text as a launch template has it."""
    return b64encode(text.encode()).decode()
