#!/bin/sh
# Makes the certificates of the tests anew: a CA, a server for "localhost" and 127.0.0.1, a client.
# The keys are secrets of nothing.
set -eu
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
signed() {
    openssl req -new -key "$1.key" -subj "$2" |
        openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 36500 -extfile "$3" -out "$1.crt"
}
key ca
openssl req -x509 -key ca.key -days 36500 -subj "/CN=test CA" -addext "keyUsage=critical,keyCertSign" -out ca.crt
extensions=$(mktemp)
echo "subjectAltName=DNS:localhost,IP:127.0.0.1" > "$extensions"
key server && signed server /CN=localhost "$extensions"
echo "extendedKeyUsage=clientAuth" > "$extensions"
key client && signed client /CN=someone/O=some-group "$extensions"
rm -f "$extensions" ca.srl ca.key
