"""moto's S3 server with checked keys; run by its own Python, which has moto and none of our code.

    python s3_server.py BUCKET REGION PREFIX=DIRECTORY …

Prints one line of JSON with its address and its keys, and ends with its standard input.
"""

import json
import logging
import os
import sys
import urllib.request
from pathlib import Path

os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(1 << 30)  # until the user is there

import boto3  # type: ignore[import-not-found]  # here as below: of the environment that this is run by
from moto.core import DEFAULT_ACCOUNT_ID  # type: ignore[import-not-found]
from moto.s3.models import s3_backends  # type: ignore[import-not-found]
from moto.server import ThreadedMotoServer  # type: ignore[import-not-found]


def main(bucket: str, region: str, directories: list[str]) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = {"endpoint_url": url, "region_name": region, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    iam = boto3.client("iam", **client)
    iam.create_user(UserName="ottla")
    key = iam.create_access_key(UserName="ottla")["AccessKey"]
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_user_policy(UserName="ottla", PolicyName="all", PolicyDocument=json.dumps(everything))
    boto3.client("s3", **client).create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region})
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]  # not over HTTP: there are tens of thousands of files
    for each in directories:
        prefix, _, directory = each.partition("=")
        for path in sorted(Path(directory).rglob("*")):
            if path.is_file():
                backend.put_object(bucket, f"{prefix}/{path.relative_to(directory)}", path.read_bytes())
    reset = urllib.request.Request(f"{url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(reset, timeout=10).close()  # from now on keys and signatures are checked
    print(
        json.dumps({"host": host, "port": port, "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}),
        flush=True,
    )
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
