"""The chains of the test's hosts: a good one, and every kind of bad one."""

import subprocess


def openssl(*words, cwd):
    subprocess.run(["openssl", *words], cwd=cwd, check=True, capture_output=True)


def make_authority(directory):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", "/CN=Authority of the test", "-keyout", "authority.key", "-out", "authority.pem",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign", cwd=directory)


def make_leaf(directory, name, hosts, authority="authority.pem", key="authority.key", start=None, end=None):
    """Signed by the authority; `start` and `end` like 20200101000000Z."""
    with open(f"{directory}/{name}.cnf", "w", encoding="ascii") as file:
        names = ",".join(f"DNS:{host}" for host in hosts)
        file.write("[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n"
                   "policy=p\nunique_subject=no\nrand_serial=yes\n[p]\ncommonName=supplied\n"
                   f"[e]\nsubjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    open(f"{directory}/index", "a", encoding="ascii").close()
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr", cwd=directory)
    time = ["-startdate", start, "-enddate", end] if start else ["-days", "20"]
    openssl("ca", "-batch", "-notext", "-config", f"{name}.cnf", "-extensions", "e", "-cert", authority, "-keyfile", key,
            *time, "-in", f"{name}.csr", "-out", f"{name}.pem", cwd=directory)


def make_self_signed(directory, name, host):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
            cwd=directory)


def make_all(directory, hosts):
    make_authority(directory)
    make_leaf(directory, "hosts", hosts)
    make_leaf(directory, "wrong-name", ["somebody-else.example.com"])
    make_leaf(directory, "expired", ["expired.bad.example.com"], start="20200101000000Z", end="20200201000000Z")
    make_self_signed(directory, "self-signed", "self-signed.bad.example.com")
