"""The relay's certificate, and how a node knows that it speaks to the right relay.

A study pins the sha256 of the certificate's public key: it can be renewed without a new study.
Under a pin its dates decide nothing, and a wrong clock cuts nobody off; without one the system's
authorities, the host's name and the dates do.
"""

import datetime
import hashlib
import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import InvalidInput, because
from pdml.files import atomic_write, check_ours, read_named, read_ours, write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

CERTIFICATE, KEY = "relay.crt", "relay.key"
RELAY_KEY = "the relay's key"
_YEARS = datetime.timedelta(days=2 * 365)


class RelayContext(ssl.SSLContext):
    """TLS towards the relay; ``pin``: the study's fingerprint, "" for the system's authorities."""

    pin: str
    peer_certificate: bytes = b""  # the certificate of the last handshake, DER

    @classmethod
    def towards(cls, pin: str) -> "RelayContext":
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.pin = pin
        context.sslobject_class = _Checked
        if pin:
            context.check_hostname = False
            # The pin is stricter than any authority: see `_Checked`.
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_default_certs()
        return context


class _Checked(ssl.SSLObject):
    """A handshake that ends only with the key that the study pins."""

    def do_handshake(self) -> None:
        super().do_handshake()
        context, certificate = self.context, self.getpeercert(binary_form=True) or b""
        assert isinstance(context, RelayContext)
        context.peer_certificate = certificate
        if context.pin and fingerprint(certificate) != context.pin:
            raise ssl.SSLCertVerificationError("the certificate is not the one that the study pins")


def fingerprint(certificate: bytes) -> str:
    """sha256 of the public key (SubjectPublicKeyInfo) in a DER certificate, in hex."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = (
        _parsed(certificate)
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
    return hashlib.sha256(public).hexdigest()


def ends(certificate: bytes) -> datetime.datetime:
    return _parsed(certificate).not_valid_after_utc


def read(path: Path) -> bytes:
    """The first certificate of a PEM file, as DER."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    data = read_named(path, error=InvalidInput)
    try:
        return x509.load_pem_x509_certificate(data).public_bytes(Encoding.DER)
    except ValueError:
        raise InvalidInput(f"{path} is no certificate in PEM form") from None


def make(folder: Path, host: str, clock: Clock = SYSTEM_CLOCK) -> bytes:
    """A self-signed certificate (DER) for ``host`` in ``folder``, whose key is kept."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    key = _key(folder / KEY)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pdml relay {host}"[:64])])
    try:
        address: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        address = x509.DNSName(host)
    now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + _YEARS)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    atomic_write(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
    return certificate.public_bytes(Encoding.DER)


def _key(path: Path) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    if check_ours(path, RELAY_KEY):
        try:
            stored_key = load_pem_private_key(read_ours(path, RELAY_KEY), None)
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {because(error)}") from None
        except (ValueError, TypeError):
            stored_key = None
        if not isinstance(stored_key, ec.EllipticCurvePrivateKey):
            raise InvalidInput(f"{path} holds no key that was made here")
        return stored_key
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _parsed(certificate: bytes) -> "Certificate":
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate)
