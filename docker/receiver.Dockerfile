# Debian's nginx as a place to send to: it takes PUT and keeps the files in /srv/received/in.
FROM docker.io/library/debian:bookworm-slim
RUN apt-get update \
  && apt-get install -y --no-install-recommends nginx \
  && rm -rf /var/lib/apt/lists/* \
  && install -d -o www-data /srv/received /srv/received/in
COPY receiver.conf /etc/nginx/nginx.conf
VOLUME /srv/received
EXPOSE 80
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
